//! What only the type checker can see: written as items that are never called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::bounds;
use crate::model::{Field, Model};

/// All checks of the type, in one anonymous constant.
pub(crate) fn all(model: &Model) -> TokenStream {
    let fields = fields(model);
    let genuine = genuine_payload(model);
    let no_drop = if model.has_slots() { no_drop(model) } else { quote!() };
    quote! {
        const _: () = {
            #genuine
            #fields
            #no_drop
        };
    }
}

/// The `Payload` behind the crate path must imply what the collector relies on.
fn genuine_payload(model: &Model) -> TokenStream {
    let krate = &model.krate;
    quote! {
        fn __metronome_shared<__MetronomeT: ::core::marker::Send + ::core::marker::Sync + 'static>() {}
        fn __metronome_genuine<__MetronomeT: #krate::__private::Payload>() {
            __metronome_shared::<__MetronomeT>()
        }
    }
}

/// Payload is payload, under the bounds of the implementations.
///
/// The type is passed as written, so that an error points at it, and the field is passed in an array that has been
/// given its type before: no coercion can then make the written type and the real one look alike.
/// A type with slots is taken by value and its fields are moved out, which needs a type without a destructor.
fn fields(model: &Model) -> TokenStream {
    let krate = &model.krate;
    let name = &model.ident;
    let generics = bounds::bounded(model);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let by_value = model.has_slots();
    let object = Ident::new("__metronome_object", Span::mixed_site());
    let arms = model.variants.iter().map(|variant| {
        let pattern = variant.pattern(name, |_| true);
        let checks =
            variant.fields.iter().filter(|field| !field.is_slot()).map(|field| payload(field, by_value));
        quote!(#pattern => { #(#checks)* })
    });
    let reference = (!by_value).then(|| quote!(&));
    // A reference always counts as inhabited; an enum without variants must be matched itself.
    let star = model.variants.is_empty().then(|| quote!(*));
    quote! {
        fn __metronome_payload<__MetronomeT: #krate::__private::Payload>(_: [&__MetronomeT; 1]) {}
        fn __metronome_fields #impl_generics (#object: #reference #name #ty_generics) #where_clause {
            match #star #object { #(#arms)* }
        }
    }
}

fn payload(field: &Field, by_value: bool) -> TokenStream {
    let ty = &field.ty;
    let binding = &field.binding;
    let reference = by_value.then(|| quote!(&));
    quote! {
        let #binding = [#reference #binding];
        __metronome_payload::<#ty>(#binding);
    }
}

/// Two implementations that overlap exactly when the type implements `Drop`. Its own bounds only: those of
/// [`bounds::bounded`] could keep the two apart.
fn no_drop(model: &Model) -> TokenStream {
    let name = &model.ident;
    let (impl_generics, ty_generics, where_clause) = model.generics.split_for_impl();
    let check = format_ident!("TypesWithSlotsMustNotImplementDrop", span = Span::mixed_site());
    quote! {
        trait #check {}
        impl<__MetronomeT: ::core::ops::Drop + ?::core::marker::Sized> #check for __MetronomeT {}
        impl #impl_generics #check for #name #ty_generics #where_clause {}
    }
}

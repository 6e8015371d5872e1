//! No `Drop` for a type with slots: what only the compiler can see, written as items that are never called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::bounds;
use crate::model::Model;

/// Both checks, in one anonymous constant.
pub(crate) fn no_drop(model: &Model) -> TokenStream {
    let overlap = overlap(model);
    let moves = moves(model);
    quote! {
        const _: () = {
            #overlap
            #moves
        };
    }
}

/// Moves every field out of a value, which the language refuses for any type with a destructor, whatever the names
/// in scope mean. A slot is not `Copy`, so there is something to move.
fn moves(model: &Model) -> TokenStream {
    let name = &model.ident;
    let generics = bounds::bounded(model);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let object = Ident::new("__metronome_object", Span::mixed_site());
    let patterns = model.variants.iter().map(|variant| variant.pattern(name));
    quote! {
        fn __metronome_fields #impl_generics (#object: #name #ty_generics) #where_clause {
            match #object { #(#patterns => {})* }
        }
    }
}

/// Two implementations that overlap exactly when the type implements `Drop`. Its own bounds only: those of
/// [`bounds::bounded`] could keep the two apart.
fn overlap(model: &Model) -> TokenStream {
    let name = &model.ident;
    let (impl_generics, ty_generics, where_clause) = model.generics.split_for_impl();
    let check = format_ident!("TypesWithSlotsMustNotImplementDrop", span = Span::mixed_site());
    quote! {
        trait #check {}
        impl<__MetronomeT: ::core::ops::Drop + ?::core::marker::Sized> #check for __MetronomeT {}
        impl #impl_generics #check for #name #ty_generics #where_clause {}
    }
}

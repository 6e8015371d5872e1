//! The initialiser and its `unsafe impl Init`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Member;

use crate::bounds;
use crate::model::{Field, Kind, Model, Shape, Variant};

/// Names of locals in the written code; mixed-site, so that no user name can meet them.
struct Names {
    visit: Ident,
    place: Ident,
    value: Ident,
}

impl Names {
    fn new() -> Names {
        let name = |text: &str| Ident::new(text, Span::mixed_site());
        Names {
            visit: name("__metronome_visit"),
            place: name("__metronome_place"),
            value: name("__metronome_value"),
        }
    }
}

/// `Init` for a type without slots: the value is its own initialiser.
pub(crate) fn plain(model: &Model) -> TokenStream {
    let krate = &model.krate;
    let name = &model.ident;
    let lifetime = &model.lifetime;
    let generics = bounds::bounded(model);
    let (_, ty_generics, where_clause) = generics.split_for_impl();
    let with_lifetime = bounds::with_lifetime(model, generics.clone());
    let (impl_generics, _, _) = with_lifetime.split_for_impl();
    let Names { visit, place, .. } = Names::new();
    // SAFETY (of the written code): there are no slots, so there is nothing to shade, and the caller of `write`
    // gives a place that is valid for writes. The pointer's own method is called: no path that could be shadowed.
    quote! {
        #[automatically_derived]
        unsafe impl #impl_generics #krate::Init<#lifetime> for #name #ty_generics #where_clause {
            type Target = Self;
            const HAS_SLOTS: bool = false;

            #[inline]
            fn values(&self, #visit: &mut dyn ::core::ops::FnMut(#krate::__private::RawRef)) {}

            #[inline]
            unsafe fn write(self, #place: *mut Self::Target) {
                unsafe { #place.write(self) }
            }
        }
    }
}

/// The initialiser of a type with slots, and `Init` for it.
pub(crate) fn slotted(model: &Model) -> TokenStream {
    let definition = definition(model);
    let krate = &model.krate;
    let name = &model.ident;
    let init = model.init_ident();
    let lifetime = &model.lifetime;
    let generics = bounds::bounded(model);
    let (_, target_generics, where_clause) = generics.split_for_impl();
    let with_lifetime = bounds::with_lifetime(model, generics.clone());
    let (impl_generics, init_generics, _) = with_lifetime.split_for_impl();
    let Names { visit, place, value } = &Names::new();
    let values = model.variants.iter().map(|variant| values_arm(model, variant, &init, visit));
    let builds = model.variants.iter().map(|variant| build_arm(model, variant, &init));
    // SAFETY (of the written code): `values` yields each slot's value, from the same fields that `write` stores;
    // each new slot goes straight into the value that is written to the heap place, and cannot be seen before.
    quote! {
        #definition

        #[automatically_derived]
        unsafe impl #impl_generics #krate::Init<#lifetime> for #init #init_generics #where_clause {
            type Target = #name #target_generics;
            const HAS_SLOTS: bool = true;

            #[inline]
            fn values(&self, #visit: &mut dyn ::core::ops::FnMut(#krate::__private::RawRef)) {
                match self { #(#values)* }
            }

            #[inline]
            unsafe fn write(self, #place: *mut Self::Target) {
                let #value: Self::Target = match self { #(#builds)* };
                unsafe { #place.write(#value) }
            }
        }
    }
}

/// Slots are made by functions of the `Init` that is being implemented: they are genuine if it is, and if it is not,
/// the type cannot be allocated.
fn of_init(model: &Model, function: &str) -> TokenStream {
    let krate = &model.krate;
    let lifetime = &model.lifetime;
    let function = format_ident!("{function}");
    quote!(<Self as #krate::Init<#lifetime>>::#function)
}

fn values_arm(model: &Model, variant: &Variant, init: &Ident, visit: &Ident) -> TokenStream {
    let pattern = variant.pattern(init);
    let visits = variant.fields.iter().filter_map(|field| {
        let binding = &field.binding;
        let function = match field.kind {
            Kind::Payload => return None,
            Kind::Slot(_) => of_init(model, "__value"),
            Kind::Array(..) => of_init(model, "__values"),
        };
        // The array has its type before the call, so that nothing is coerced into what the function takes.
        Some(quote! {
            let #binding = [#binding];
            #function(#binding, #visit);
        })
    });
    quote!(#pattern => { #(#visits)* })
}

fn build_arm(model: &Model, variant: &Variant, init: &Ident) -> TokenStream {
    let pattern = variant.pattern(init);
    let path = variant.path(&model.ident);
    let fields = variant.fields.iter().map(|field| {
        let member = &field.member;
        let binding = &field.binding;
        let function = match field.kind {
            Kind::Payload => return quote!(#member: #binding),
            Kind::Slot(_) => of_init(model, "__slot"),
            Kind::Array(..) => of_init(model, "__slots"),
        };
        // SAFETY (of the written code): the slots go straight into the value that `write` puts in its heap place.
        quote!(#member: unsafe { #function(#binding) })
    });
    quote!(#pattern => #path { #(#fields),* },)
}

/// `struct NameInit` or `enum NameInit`.
fn definition(model: &Model) -> TokenStream {
    let vis = &model.vis;
    let init = model.init_ident();
    let generics = bounds::with_lifetime(model, bounds::bounded(model));
    let where_clause = &generics.where_clause;
    let doc = format!(
        "Initialiser of [`{}`]: what allocation takes. Slots are given as `Option<Gc>`, payload by value.",
        model.ident
    );
    let non_exhaustive = model.non_exhaustive.then(|| quote!(#[non_exhaustive]));
    let body = if model.is_enum {
        let variants = model.variants.iter().map(|variant| {
            let ident = &variant.ident;
            let doc = format!("Initialiser of [`{}::{}`].", model.ident, quote!(#ident));
            let non_exhaustive = variant.non_exhaustive.then(|| quote!(#[non_exhaustive]));
            let fields = definition_fields(model, variant);
            quote!(#[doc = #doc] #non_exhaustive #ident #fields)
        });
        quote!(enum #init #generics #where_clause { #(#variants),* })
    } else {
        // A struct has exactly one variant; `shape` says where its where clause goes.
        let variants = model.variants.iter().map(|variant| {
            let fields = definition_fields(model, variant);
            match variant.shape {
                Shape::Named => quote!(#where_clause #fields),
                Shape::Tuple | Shape::Unit => quote!(#fields #where_clause ;),
            }
        });
        quote!(struct #init #generics #(#variants)*)
    };
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types, non_snake_case)] // said once, of the original
        #non_exhaustive
        #vis #body
    }
}

fn definition_fields(model: &Model, variant: &Variant) -> TokenStream {
    let fields = variant.fields.iter().map(|field| {
        let vis = &field.vis;
        let ty = definition_type(model, field);
        let member = match &field.member {
            Member::Named(ident) => format!("`{ident}`"),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let doc = match field.kind {
            Kind::Payload => format!("Value of field {member}."),
            Kind::Slot(_) => format!("Object that slot {member} first points to, if any."),
            Kind::Array(..) => format!("Objects that the slots of {member} first point to, if any."),
        };
        match &field.member {
            Member::Named(ident) => quote!(#[doc = #doc] #vis #ident: #ty),
            Member::Unnamed(_) => quote!(#[doc = #doc] #vis #ty),
        }
    });
    match variant.shape {
        Shape::Named => quote!({ #(#fields),* }),
        Shape::Tuple => quote!((#(#fields),*)),
        Shape::Unit => quote!(),
    }
}

fn definition_type(model: &Model, field: &Field) -> TokenStream {
    let krate = &model.krate;
    let lifetime = &model.lifetime;
    let option = |target| quote!(::core::option::Option<#krate::Gc<#lifetime, #target>>);
    match &field.kind {
        Kind::Payload => {
            let ty = &field.ty;
            quote!(#ty)
        }
        Kind::Slot(target) => option(target),
        Kind::Array(target, len) => {
            let option = option(target);
            quote!([#option; #len])
        }
    }
}

//! `unsafe impl Trace`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::bounds;
use crate::model::{Field, Kind, Model};

/// Writes the implementation.
pub(crate) fn implementation(model: &Model) -> TokenStream {
    let krate = &model.krate;
    let name = &model.ident;
    let generics = bounds::bounded(model);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let needs_trace = model.has_slots();
    let tracer = format_ident!("__metronome_tracer", span = Span::mixed_site());
    let body = visit(model, &tracer);
    // SAFETY (of the written code): the patterns list every field, and the tracer takes each as slot or as payload,
    // which holds no slot; so every slot is visited, and once. Nothing in it can unwind.
    quote! {
        #[automatically_derived]
        unsafe impl #impl_generics #krate::Trace for #name #ty_generics #where_clause {
            const NEEDS_TRACE: bool = #needs_trace;

            #[inline]
            unsafe fn trace(&self, #tracer: &mut #krate::Tracer<'_>) {
                #body
            }
        }
    }
}

fn visit(model: &Model, tracer: &Ident) -> TokenStream {
    let arms = model.variants.iter().map(|variant| {
        let pattern = variant.pattern(&model.ident);
        let visits = variant.fields.iter().map(|field| visit_field(field, tracer));
        quote!(#pattern => { #(#visits)* })
    });
    // A reference always counts as inhabited; an enum without variants must be matched itself.
    let star = model.variants.is_empty().then(|| quote!(*));
    quote!(match #star self { #(#arms)* })
}

/// Hands the field to the tracer, whose type follows from the trait's signature; its own methods come before those
/// of any trait. The array has its type before the call, so that nothing is coerced into what the tracer takes.
fn visit_field(field: &Field, tracer: &Ident) -> TokenStream {
    let binding = &field.binding;
    let method = match field.kind {
        Kind::Payload => quote!(__payload),
        Kind::Slot(_) => quote!(__visit),
        Kind::Array(..) => quote!(__visit_all),
    };
    quote! {
        let #binding = [#binding];
        #tracer.#method(#binding);
    }
}

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
    let body = if needs_trace { visit(model, &tracer) } else { quote!() };
    // SAFETY (of the written code): the patterns list every field, `parse` sorts each into slot or payload, and
    // payload holds no slot (checked by `checks`); so every slot is visited, and once. Nothing in it can unwind.
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
        let pattern = variant.pattern(&model.ident, Field::is_slot);
        let visits = variant.fields.iter().filter_map(|field| visit_field(model, field, tracer));
        quote!(#pattern => { #(#visits)* })
    });
    quote!(match self { #(#arms)* })
}

/// The path is used as a type, never as a module: see the crate's safety notes.
fn visit_field(model: &Model, field: &Field, tracer: &Ident) -> Option<TokenStream> {
    let krate = &model.krate;
    let binding = &field.binding;
    let slot = format_ident!("__metronome_slot", span = Span::mixed_site());
    match field.kind {
        Kind::Payload => None,
        Kind::Slot(_) => Some(quote!(unsafe { <#krate::Slot<_>>::__trace(#binding, #tracer) };)),
        Kind::Array(..) => Some(quote! {
            for #slot in #binding {
                unsafe { <#krate::Slot<_>>::__trace(#slot, #tracer) };
            }
        }),
    }
}

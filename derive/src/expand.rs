//! The whole expansion.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::{checks, init, parse, trace};

/// Writes everything `#[derive(Trace)]` stands for, or says why it cannot.
pub(crate) fn expand(input: DeriveInput) -> syn::Result<TokenStream> {
    let model = parse::parse(input)?;
    let trace = trace::implementation(&model);
    Ok(if model.has_slots() {
        let init = init::slotted(&model);
        let no_drop = checks::no_drop(&model);
        quote!(#trace #init #no_drop)
    } else {
        let init = init::plain(&model);
        quote!(#trace #init)
    })
}

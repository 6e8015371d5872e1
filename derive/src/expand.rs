//! The whole expansion.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::{checks, init, parse, trace};

/// Writes everything `#[derive(Trace)]` stands for, or says why it cannot.
pub(crate) fn expand(input: DeriveInput) -> syn::Result<TokenStream> {
    let model = parse::parse(input)?;
    let trace = trace::implementation(&model);
    let init = if model.has_slots() { init::slotted(&model) } else { init::plain(&model) };
    let checks = checks::all(&model);
    Ok(quote!(#trace #init #checks))
}

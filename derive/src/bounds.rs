//! Generics of what is written: the user's own, plus the bounds that the fields ask for.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericParam, Generics, Type, TypeParamBound, parse_quote};

use crate::model::{Kind, Model};
use crate::parse::strip;

/// The type's generics with the bounds under which it is `Trace`.
pub(crate) fn bounded(model: &Model) -> Generics {
    let krate = &model.krate;
    let mut generics = model.generics.clone();
    let params = params(&model.generics);
    let types: Vec<Ident> = generics.type_params().map(|param| param.ident.clone()).collect();
    for ty in &types {
        add(&mut generics, &parse_quote!(#ty), parse_quote!('static));
    }
    for field in model.fields() {
        match &field.kind {
            Kind::Payload if mentions(field.ty.to_token_stream(), &params) => {
                add(&mut generics, &field.ty, parse_quote!(#krate::__private::Payload));
            }
            Kind::Slot(target) | Kind::Array(target, _) if is_open(target, &types) => {
                add(&mut generics, target, parse_quote!(#krate::Trace));
            }
            _ => {}
        }
    }
    generics
}

/// Adds `ty: bound`; beside the parameter's other bounds if it has any there, as lints want them in one place.
fn add(generics: &mut Generics, ty: &Type, bound: TypeParamBound) {
    if let Type::Path(path) = strip(ty)
        && let Some(name) = path.path.get_ident()
        && let Some(param) = generics.type_params_mut().find(|param| param.ident == *name)
        && !param.bounds.is_empty()
    {
        param.bounds.push(bound);
        return;
    }
    generics.make_where_clause().predicates.push(parse_quote!(#ty: #bound));
}

/// The same with the initialiser's lifetime in front.
pub(crate) fn with_lifetime(model: &Model, mut generics: Generics) -> Generics {
    let lifetime = &model.lifetime;
    generics.params.insert(0, parse_quote!(#lifetime));
    generics
}

/// A parameter `T`, or a projection from one. Only these need a bound of their own, and for these a bound cannot
/// be circular; `Node<T>: Trace` as a bound of `impl Trace for Node<T>` would be.
fn is_open(target: &Type, types: &[Ident]) -> bool {
    let Type::Path(path) = strip(target) else { return false };
    match &path.qself {
        Some(_) => mentions(path.to_token_stream(), types),
        None => path.path.segments.first().is_some_and(|first| types.contains(&first.ident)),
    }
}

/// Names of the type and const parameters.
fn params(generics: &Generics) -> Vec<Ident> {
    let name = |param: &GenericParam| match param {
        GenericParam::Type(param) => Some(param.ident.clone()),
        GenericParam::Const(param) => Some(param.ident.clone()),
        GenericParam::Lifetime(_) => None,
    };
    generics.params.iter().filter_map(name).collect()
}

/// Whether any of the names occurs. May say yes too often (a path segment of that name): the bound is then
/// checked at once instead of being deferred, which is as good.
fn mentions(tokens: TokenStream, names: &[Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.contains(&ident),
        TokenTree::Group(group) => mentions(group.stream(), names),
        _ => false,
    })
}

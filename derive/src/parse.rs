//! From syntax to [`Model`], with every refusal that needs no type information. Errors are collected, so that one
//! compilation shows them all.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, GenericArgument, GenericParam, Index, Lifetime, Member,
    Meta, Path, PathArguments, Token, Type,
};

use crate::model::{Field, Kind, Model, Shape, Variant};

/// Reads the input or says everything that is wrong with it.
pub(crate) fn parse(input: DeriveInput) -> syn::Result<Model> {
    let input = resolve_self(input)?;
    let mut errors = Vec::new();
    let krate = crate_path(&input.attrs, &mut errors);
    for param in input.generics.lifetimes() {
        errors.push(Error::new(
            param.lifetime.span(),
            "no lifetime parameter: heap objects are `'static`; own the data, or point to other heap objects with `Slot`",
        ));
    }

    let is_enum = matches!(input.data, Data::Enum(_));
    let mut variants = Vec::new();
    match &input.data {
        Data::Struct(data) => {
            let (shape, fields) = read_fields(&data.fields, &mut errors);
            variants.push(Variant { ident: None, non_exhaustive: false, shape, fields });
        }
        Data::Enum(data) => {
            for variant in &data.variants {
                refuse_trace_attribute(&variant.attrs, &mut errors);
                let (shape, fields) = read_fields(&variant.fields, &mut errors);
                let non_exhaustive = has_non_exhaustive(&variant.attrs);
                variants.push(Variant { ident: Some(variant.ident.clone()), non_exhaustive, shape, fields });
            }
        }
        Data::Union(data) => errors.push(Error::new(
            data.union_token.span(),
            "`Trace` cannot be derived for a union: the collector could not tell which field is alive; use an enum",
        )),
    }

    let model = Model {
        krate,
        lifetime: free_lifetime(&input),
        non_exhaustive: has_non_exhaustive(&input.attrs),
        ident: input.ident,
        vis: input.vis,
        generics: input.generics,
        is_enum,
        variants,
    };
    if model.has_slots() {
        refuse_packed(&input.attrs, &mut errors);
    }
    match errors.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    }) {
        None => Ok(model),
        Some(error) => Err(error),
    }
}

/// Replaces `Self`, which would mean something else inside the initialiser, by the type it stands for.
fn resolve_self(input: DeriveInput) -> syn::Result<DeriveInput> {
    let name = &input.ident;
    let args: Punctuated<&Ident, Token![,]> = input
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(&param.ident),
            GenericParam::Const(param) => Some(&param.ident),
            GenericParam::Lifetime(_) => None, // refused later
        })
        .collect();
    // The `::<…>` form is right both in types and in the expressions of array lengths.
    let this = if args.is_empty() { quote!(#name) } else { quote!(#name::<#args>) };
    syn::parse2(replace_self(input.to_token_stream(), &this))
}

fn replace_self(tokens: TokenStream, this: &TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                let span = ident.span();
                out.extend(this.clone().into_iter().map(|mut token| {
                    token.set_span(span);
                    token
                }));
            }
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), replace_self(group.stream(), this));
                new.set_span(group.span());
                out.extend([TokenTree::Group(new)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

/// `'m`, unless the input uses that name itself (as in `for<'m> fn(&'m T)`).
fn free_lifetime(input: &DeriveInput) -> Lifetime {
    let name = if mentions_lifetime_m(input.to_token_stream()) { "'__metronome" } else { "'m" };
    Lifetime::new(name, Span::mixed_site())
}

fn mentions_lifetime_m(tokens: TokenStream) -> bool {
    let mut after_quote = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Ident(ident) => after_quote && ident == "m",
            TokenTree::Group(group) => mentions_lifetime_m(group.stream()),
            _ => false,
        };
        after_quote = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\'');
        found
    })
}

fn read_fields(fields: &Fields, errors: &mut Vec<Error>) -> (Shape, Vec<Field>) {
    let shape = match fields {
        Fields::Named(_) => Shape::Named,
        Fields::Unnamed(_) => Shape::Tuple,
        Fields::Unit => Shape::Unit,
    };
    let fields = fields.iter().enumerate().map(|(position, field)| {
        refuse_trace_attribute(&field.attrs, errors);
        refuse_borrow(&field.ty, errors);
        let member = match &field.ident {
            Some(ident) => Member::Named(ident.clone()),
            None => Member::Unnamed(Index { index: position as u32, span: field.ty.span() }),
        };
        Field {
            member,
            vis: field.vis.clone(),
            ty: field.ty.clone(),
            kind: classify(&field.ty),
            // Hygienic name, but errors about it point at the field.
            binding: format_ident!(
                "__metronome_f{}",
                position,
                span = Span::mixed_site().located_at(field.ty.span())
            ),
        }
    });
    (shape, fields.collect())
}

fn classify(ty: &Type) -> Kind {
    match strip(ty) {
        Type::Array(array) => match slot_target(&array.elem) {
            Some(target) => Kind::Array(target, array.len.clone()),
            None => Kind::Payload,
        },
        ty => match slot_target(ty) {
            Some(target) => Kind::Slot(target),
            None => Kind::Payload,
        },
    }
}

/// The `T` of a type written `Slot<T>`, with any plain path in front.
fn slot_target(ty: &Type) -> Option<Type> {
    let Type::Path(path) = strip(ty) else { return None };
    if path.qself.is_some() {
        return None; // a projection may name anything: payload, and refused as such if it is a slot
    }
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    match (last.ident == "Slot", args.args.len(), args.args.first()) {
        (true, 1, Some(GenericArgument::Type(target))) => Some(target.clone()),
        _ => None,
    }
}

/// The type without parentheses and without the invisible groups that `macro_rules!` leaves.
pub(crate) fn strip(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Paren(inner) => &inner.elem,
            Type::Group(inner) => &inner.elem,
            _ => return ty,
        };
    }
}

fn refuse_borrow(ty: &Type, errors: &mut Vec<Error>) {
    let Type::Reference(reference) = strip(ty) else { return };
    if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") {
        errors.push(Error::new(
            reference.and_token.span(),
            "no borrowed field: heap objects are `'static` and outlive every borrow; own the data, or point to another heap object with `Slot<T>`",
        ));
    }
}

fn refuse_packed(attrs: &[Attribute], errors: &mut Vec<Error>) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        let Ok(list) = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
            continue;
        };
        for item in list.iter().filter(|item| item.path().is_ident("packed")) {
            errors.push(Error::new(
                item.span(),
                "no `packed` representation on a type with slots: the collector reads slots at their natural alignment",
            ));
        }
    }
}

fn has_non_exhaustive(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("non_exhaustive"))
}

fn refuse_trace_attribute(attrs: &[Attribute], errors: &mut Vec<Error>) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("trace")) {
        errors.push(Error::new(
            attr.path().span(),
            "`#[trace(…)]` belongs on the type; fields and variants take no option, slots are recognised by their type `Slot<T>`",
        ));
    }
}

/// The `path` of `#[trace(crate = path)]`, else `::metronome_gc`.
fn crate_path(attrs: &[Attribute], errors: &mut Vec<Error>) -> Path {
    let mut found: Option<Path> = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("trace")) {
        let result = attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown option: `#[trace(crate = path)]` is the only one"));
            }
            if found.is_some() {
                return Err(meta.error("option given twice"));
            }
            // Module style: no generic arguments, so no expression can ride into an unsafe block.
            found = Some(meta.value()?.call(Path::parse_mod_style)?);
            Ok(())
        });
        errors.extend(result.err());
    }
    found.unwrap_or_else(|| syn::parse_quote!(::metronome_gc))
}

//! The type as the derive understands it: variants of fields, each a slot, an array of slots, or payload.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Expr, Generics, Lifetime, Member, Path, Type, Visibility};

/// What a field holds.
pub(crate) enum Kind {
    /// Anything that is not written as a slot; must be `Send + Sync + 'static`.
    Payload,
    /// `Slot<T>`, with this `T`.
    Slot(Type),
    /// `[Slot<T>; N]`, with this `T` and `N`.
    Array(Type, Expr),
}

/// One field.
pub(crate) struct Field {
    /// Name or position.
    pub(crate) member: Member,
    /// Visibility of the original field.
    pub(crate) vis: Visibility,
    /// Type as written, `Self` resolved.
    pub(crate) ty: Type,
    /// What it holds.
    pub(crate) kind: Kind,
    /// The local name that written patterns bind the field to.
    pub(crate) binding: Ident,
}

impl Field {
    /// Whether the field holds slots.
    pub(crate) fn is_slot(&self) -> bool {
        !matches!(self.kind, Kind::Payload)
    }
}

/// How the fields of a variant are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `{ a: A }`
    Named,
    /// `(A)`
    Tuple,
    /// Nothing.
    Unit,
}

/// A variant of an enum, or the only "variant" of a struct.
pub(crate) struct Variant {
    /// Name; `None` for a struct.
    pub(crate) ident: Option<Ident>,
    /// Whether `#[non_exhaustive]` stands on it.
    pub(crate) non_exhaustive: bool,
    /// Braces, parentheses or nothing.
    pub(crate) shape: Shape,
    /// Its fields, in order.
    pub(crate) fields: Vec<Field>,
}

impl Variant {
    /// Path of the variant below the type `name`.
    pub(crate) fn path(&self, name: &Ident) -> TokenStream {
        match &self.ident {
            Some(variant) => quote!(#name::#variant),
            None => quote!(#name),
        }
    }

    /// Pattern that lists and binds *every* field.
    /// Braces serve for tuples too, so that only the type namespace is looked up.
    pub(crate) fn pattern(&self, name: &Ident) -> TokenStream {
        let path = self.path(name);
        let fields = self.fields.iter().map(|field| {
            let member = &field.member;
            let binding = &field.binding;
            quote!(#member: #binding)
        });
        quote!(#path { #(#fields),* })
    }

    /// Whether any field holds slots.
    pub(crate) fn has_slots(&self) -> bool {
        self.fields.iter().any(Field::is_slot)
    }
}

/// The whole type.
pub(crate) struct Model {
    /// Path of the collector's crate.
    pub(crate) krate: Path,
    /// Name of the type.
    pub(crate) ident: Ident,
    /// Its visibility.
    pub(crate) vis: Visibility,
    /// Its generics as written, `Self` resolved; no lifetime parameters.
    pub(crate) generics: Generics,
    /// Whether it is an enum.
    pub(crate) is_enum: bool,
    /// Whether `#[non_exhaustive]` stands on the type.
    pub(crate) non_exhaustive: bool,
    /// Variants; exactly one for a struct.
    pub(crate) variants: Vec<Variant>,
    /// The lifetime of the initialiser, distinct from every lifetime in the input.
    pub(crate) lifetime: Lifetime,
}

impl Model {
    /// Whether the type holds slots, in any variant.
    pub(crate) fn has_slots(&self) -> bool {
        self.variants.iter().any(Variant::has_slots)
    }

    /// All fields of all variants.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.variants.iter().flat_map(|variant| &variant.fields)
    }

    /// Name of the initialiser.
    pub(crate) fn init_ident(&self) -> Ident {
        format_ident!("{}Init", self.ident.unraw(), span = self.ident.span())
    }
}

//! Derive macro for the `Trace` trait of the Metronome collector.
//!
//! **Architecture invariant:** this crate only rewrites tokens. It knows no heap, no barrier and no phase; what
//! it writes refers to the collector by absolute paths alone.
//!
//! The collector's crate re-exports [`macro@Trace`]; nobody needs to depend on this one.
//!
//! # State · Who may touch what
//! None: an expansion depends on its input only.
//!
//! # Safety
//! The written code contains `unsafe`, and safe user code chooses the input. What keeps that sound:
//! - **Everything is tied to the traits that are implemented, and to no other name.** A crate path, `::metronome_gc`
//!   and even `::core` can be made to mean anything, but only a type that implements the real `Trace`, and whose
//!   initialiser implements the real `Init`, can be allocated. The signatures of these two force the types of what
//!   their functions are given, and every field goes to a function reached from there: in `Trace::trace` to a
//!   method of the tracer (a type's own methods come before those of any trait in scope), in `Init` to functions of
//!   that trait itself. They accept genuine slots, genuine references and `Send + Sync + 'static` payload. If a name
//!   of the path is forged, either these types do not fit or a trait is implemented that allocation does not know.
//! - **Nothing is coerced on the way**: each field is passed by reference in an array that has been given its type
//!   before, so that a type that dereferences to a slot is not taken for one.
//! - **No token of the user stands inside a written `unsafe` block** except the `#[trace(crate = …)]` path, which
//!   is parsed as a plain module path and so holds no expression. What is called there are functions of `Init`.
//! - **Slots are recognised by name.** A foreign type of that name is a type error by the above; a slot under any
//!   other name counts as payload and is refused, because `Slot` is neither `Send` nor `Sync`.
//! - **Every pattern lists every field** (no `..`). An attribute macro that edits the type after the derive has read
//!   it makes a compile error.
//! - **No `Drop` for a type with slots**, by two checks: a conflicting implementation, and a move out of each
//!   slot field, which the language refuses for any type with a destructor whatever the names in scope mean.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod bounds;
mod checks;
mod expand;
mod init;
mod model;
mod parse;
#[cfg(test)]
mod tests;
mod trace;

/// Implements `Trace` for a struct or an enum and writes its initialiser.
///
/// # Fields
/// A field is a **slot** when its type is written `Slot<T>` or `[Slot<T>; N]` (with any path before `Slot`).
/// Every other field is **payload** and must be `Send + Sync + 'static`. A slot inside anything else (an alias, an
/// `Option`, a `Vec`, an `Arc`, a tuple) is payload by this rule and refused, since a slot is neither `Send` nor
/// `Sync`.
///
/// # What is written
/// - `unsafe impl Trace`: visits each slot once; costs nothing for a type without slots.
/// - With slots: the initialiser `<Name>Init<'m, …>`, of the same shape and visibility, with payload by value and
///   `Option<Gc<'m, T>>` for each slot, and its `Init` implementation. Allocation takes this initialiser. A value
///   of the type itself can be made nowhere but in the heap.
/// - Without slots: `Init` for the type itself; such a type may implement `Drop`.
///
/// ```ignore
/// #[derive(Trace)]
/// struct Node {
///     key: u64,
///     next: Slot<Node>,
/// }
/// let tail = m.alloc(NodeInit { key: 2, next: None })?;
/// let head = m.alloc(NodeInit { key: 1, next: Some(tail) })?;
/// ```
///
/// # Generics
/// Every type parameter is bounded by `'static`. A payload field that mentions a parameter adds the bound that it
/// is payload, and `Slot<T>` for a parameter or projection `T` adds `T: Trace`. Other slot targets, such as
/// `Slot<List<T>>`, add nothing (a bound could be circular): write what `List<T>: Trace` needs on the type itself,
/// usually `T: Send + Sync + 'static`.
///
/// # Attribute
/// `#[trace(crate = path)]` on the type names the collector's crate when it is not `::metronome_gc`.
///
/// # Errors
/// Refused with a message at the place: unions; lifetime parameters; fields borrowed for anything but `'static`;
/// `#[repr(packed)]` or `Drop` on a type with slots; payload that is not `Send + Sync + 'static`; unknown or
/// misplaced `#[trace(…)]`.
#[proc_macro_derive(Trace, attributes(trace))]
pub fn derive_trace(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(input).unwrap_or_else(syn::Error::into_compile_error).into()
}

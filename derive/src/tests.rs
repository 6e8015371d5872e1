//! Properties of the expansion. What it means to the compiler is tested where the collector is: by compiling.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::visit::Visit;
use syn::{DeriveInput, Fields, File, Item, ItemImpl, parse_quote};

use crate::expand::expand;

fn file(input: DeriveInput) -> File {
    let tokens = expand(input).expect("the input is well-formed");
    syn::parse2(tokens).expect("the expansion is a list of items")
}

fn messages(input: DeriveInput) -> Vec<String> {
    let error = expand(input).expect_err("the input is refused");
    error.into_iter().map(|error| error.to_string()).collect()
}

/// Text of tokens without spaces, to compare without caring for layout.
fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().split_whitespace().collect()
}

fn implementation<'f>(file: &'f File, of: &str) -> &'f ItemImpl {
    let found = file.items.iter().find_map(|item| match item {
        Item::Impl(item) => {
            let (_, path, _) = item.trait_.as_ref()?;
            (path.segments.last()?.ident == of).then_some(item)
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no implementation of {of}"))
}

fn init_struct(file: &File) -> Option<&syn::ItemStruct> {
    file.items.iter().find_map(|item| if let Item::Struct(item) = item { Some(item) } else { None })
}

fn init_enum(file: &File) -> Option<&syn::ItemEnum> {
    file.items.iter().find_map(|item| if let Item::Enum(item) = item { Some(item) } else { None })
}

fn count(haystack: &str, needle: &str) -> usize {
    haystack.matches(needle).count()
}

#[test]
fn struct_with_slots_gets_an_initialiser_of_its_shape() {
    let file = file(parse_quote! {
        pub(crate) struct Node { pub key: u64, next: Slot<Self>, kids: [gc::Slot<Node>; 4] }
    });
    let init = init_struct(&file).expect("initialiser");
    assert_eq!(init.ident, "NodeInit");
    assert_eq!(text(&init.vis), "pub(crate)");
    let fields: Vec<String> = init
        .fields
        .iter()
        .map(|field| format!("{} {}:{}", text(&field.vis), text(&field.ident), text(&field.ty)))
        .collect();
    assert_eq!(
        fields,
        [
            "pub key:u64",
            " next:::core::option::Option<::metronome_gc::Gc<'m,Node>>",
            " kids:[::core::option::Option<::metronome_gc::Gc<'m,Node>>;4]",
        ]
    );
    let documented = |attrs: &[syn::Attribute]| attrs.iter().any(|attr| attr.path().is_ident("doc"));
    assert!(documented(&init.attrs) && init.fields.iter().all(|field| documented(&field.attrs)));
    let init = implementation(&file, "Init");
    assert_eq!(text(&init.self_ty), "NodeInit<'m>");
    assert!(init.unsafety.is_some() && text(init).contains("typeTarget=Node;constHAS_SLOTS:bool=true;"));
}

#[test]
fn every_slot_is_traced_and_shaded_once_and_payload_never() {
    let file = file(parse_quote! {
        enum Tree { Nil, Leaf(u8, Slot<Tree>), Fork { a: Slot<Tree>, key: u8, b: [Slot<Tree>; 2] } }
    });
    let trace = text(implementation(&file, "Trace"));
    assert!(trace.contains("constNEEDS_TRACE:bool=true;"));
    let typed = |method: &str, field: u8| {
        let field = format!("__metronome_f{field}");
        format!("let{field}=[{field}];__metronome_tracer.{method}({field});")
    };
    for arm in [
        "Tree::Nil{}=>{}".to_owned(),
        format!(
            "Tree::Leaf{{0:__metronome_f0,1:__metronome_f1}}=>{{{}{}}}",
            typed("__payload", 0),
            typed("__visit", 1)
        ),
        format!(
            "Tree::Fork{{a:__metronome_f0,key:__metronome_f1,b:__metronome_f2}}=>{{{}{}{}}}",
            typed("__visit", 0),
            typed("__payload", 1),
            typed("__visit_all", 2)
        ),
    ] {
        assert!(trace.contains(&arm), "{arm} in {trace}");
    }
    let init = text(implementation(&file, "Init"));
    let of_init = "<Selfas::metronome_gc::Init<'m>>::";
    for (function, times) in [("__value", 2), ("__values", 1), ("__slot", 2), ("__slots", 1)] {
        assert_eq!(count(&init, &format!("{of_init}{function}(")), times, "{function} in {init}");
    }
    assert_eq!(count(&init, of_init), 6);
    let shape: Vec<(String, usize)> = init_enum(&file)
        .expect("initialiser")
        .variants
        .iter()
        .map(|variant| (variant.ident.to_string(), variant.fields.len()))
        .collect();
    assert_eq!(shape, [("Nil".into(), 0), ("Leaf".into(), 2), ("Fork".into(), 3)]);
}

#[test]
fn type_without_slots_is_its_own_initialiser_and_may_drop() {
    for input in [
        parse_quote!(
            struct Unit;
        ),
        parse_quote!(
            struct Pair(u8, Vec<String>);
        ),
        parse_quote!(
            enum Never {}
        ),
        parse_quote!(
            enum Colour {
                Red,
                Other(u8),
            }
        ),
    ] {
        let file = file(input);
        assert!(init_struct(&file).is_none() && init_enum(&file).is_none());
        let init = text(implementation(&file, "Init"));
        assert!(init.contains("typeTarget=Self;constHAS_SLOTS:bool=false;"), "{init}");
        let trace = text(implementation(&file, "Trace"));
        assert!(trace.contains("constNEEDS_TRACE:bool=false;") && !trace.contains("__visit"), "{trace}");
        assert!(!text(&file).contains("Drop"));
    }
}

#[test]
fn enum_without_variants_is_matched_too() {
    // Else an attribute macro could turn it into anything after the derive has read it.
    assert!(
        text(file(parse_quote!(
            enum Never {}
        )))
        .contains("match*self{}")
    );
}

#[test]
fn type_with_slots_must_not_drop_whatever_is_in_scope() {
    let file = text(file(parse_quote!(
        struct Node<T: Clone>
        where
            T: Copy,
        {
            t: T,
            next: Slot<Self>,
        }
    )));
    assert!(file.contains("impl<__MetronomeT:::core::ops::Drop+?::core::marker::Sized>"));
    // The other half under the type's own bounds only, and the move that needs no name at all.
    assert!(
        file.contains("impl<T:Clone>TypesWithSlotsMustNotImplementDropforNode<T>whereT:Copy,{}"),
        "{file}"
    );
    assert!(file.contains("(__metronome_object:Node<T>)"));
}

#[test]
fn hidden_slots_are_payload_and_payload_is_checked() {
    let hidden: [syn::Type; 8] = [
        parse_quote!(Link),
        parse_quote!(Option<Slot<Node>>),
        parse_quote!((Slot<Node>, u8)),
        parse_quote!([[Slot<Node>; 2]; 2]),
        parse_quote!(<Node as Has>::Slot<Node>),
        parse_quote!(Slot),
        parse_quote!(Slot<Node, Extra>),
        parse_quote!(slot!(Node)),
    ];
    for ty in hidden {
        let file = file(parse_quote!(struct Object { field: #ty }));
        assert!(init_struct(&file).is_none());
        let trace = text(implementation(&file, "Trace"));
        assert!(trace.contains("__metronome_tracer.__payload(__metronome_f0);"), "{}: {trace}", text(&ty));
        assert!(!trace.contains("__visit"), "{}: {trace}", text(&ty));
    }
}

#[test]
fn slots_are_seen_through_parentheses_and_macro_groups() {
    let slot = TokenTree::Group(proc_macro2::Group::new(Delimiter::None, quote!(Slot<Node>)));
    let file =
        file(parse_quote!(struct Node { a: (Slot<Node>), b: #slot, c: [#slot; 2], d: a::b::Slot<Node> }));
    let trace = text(implementation(&file, "Trace"));
    assert_eq!(count(&trace, ".__visit("), 3);
    assert_eq!(count(&trace, ".__visit_all("), 1);
}

#[test]
fn bounds_follow_the_fields() {
    let file = file(parse_quote! {
        struct Mixed<T, U: Clone, V: Has, const N: usize> {
            plain: u8, t: T, vec: Vec<T>, bytes: [u8; N],
            u: Slot<U>, item: Slot<<V as Has>::Item>, own: Slot<Self>,
        }
    });
    let trace = implementation(&file, "Trace");
    let header = text(&trace.generics) + &text(&trace.generics.where_clause);
    assert!(header.contains("U:Clone+'static+::metronome_gc::Trace"), "{header}");
    assert!(header.contains("V:Has+'static"), "{header}");
    let payload = "::metronome_gc::__private::Payload";
    for bound in [
        "T:'static".to_owned(),
        format!("T:{payload}"),
        format!("Vec<T>:{payload}"),
        format!("[u8;N]:{payload}"),
        "<VasHas>::Item:::metronome_gc::Trace".to_owned(),
    ] {
        assert!(header.contains(&bound), "{bound} in {header}");
    }
    assert!(!header.contains("u8:") && !header.contains("Mixed"), "{header}");
    assert_eq!(text(&trace.self_ty), "Mixed<T,U,V,N>");
    let init = init_struct(&file).expect("initialiser");
    let own = init.fields.iter().find(|field| field.ident.as_ref().is_some_and(|name| name == "own"));
    assert_eq!(
        text(&own.expect("field").ty),
        "::core::option::Option<::metronome_gc::Gc<'m,Mixed::<T,U,V,N>>>"
    );
}

#[test]
fn lifetime_of_the_initialiser_avoids_the_users() {
    let file = file(parse_quote!(
        struct Node {
            f: for<'m> fn(&'m u8),
            next: Slot<Node>,
        }
    ));
    assert_eq!(text(&init_struct(&file).expect("initialiser").generics), "<'__metronome>");
}

#[test]
fn raw_and_tuple_names_keep_their_shape() {
    let file = file(parse_quote!(
        struct r#type(pub u8, Slot<r#type>);
    ));
    let init = init_struct(&file).expect("initialiser");
    assert_eq!(init.ident, "typeInit");
    assert!(matches!(&init.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 2));
}

#[test]
fn slots_are_tied_to_the_traits_and_not_to_a_name() {
    let file = text(file(parse_quote!(
        #[trace(crate = forged)]
        struct Node {
            next: Slot<Node>,
            kids: [Slot<Node>; 2],
        }
    )));
    for name in ["Slot", "__private::Payload"] {
        assert!(!file.contains(&format!("forged::{name}")), "{name} in {file}");
    }
}

#[test]
fn crate_path_replaces_every_mention() {
    let file = text(file(parse_quote!(
        #[trace(crate = crate::inner)]
        struct Node {
            next: Slot<Node>,
            v: u8,
        }
    )));
    assert!(file.contains("crate::inner::Trace") && !file.contains("metronome_gc"));
}

/// Collects what stands inside `unsafe { … }`, and whether any pattern has `..`.
#[derive(Default)]
struct Inside {
    blocks: Vec<String>,
    rest: bool,
}

impl<'ast> Visit<'ast> for Inside {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.blocks.push(text(&block.block));
    }
    fn visit_pat_rest(&mut self, _: &'ast syn::PatRest) {
        self.rest = true;
    }
    fn visit_pat_struct(&mut self, pat: &'ast syn::PatStruct) {
        self.rest |= pat.rest.is_some();
        syn::visit::visit_pat_struct(self, pat);
    }
}

#[test]
fn nothing_of_the_user_is_inside_an_unsafe_block_and_no_pattern_skips_fields() {
    let file = file(parse_quote! {
        enum Mine<UserT, const USER: usize> {
            UserA { user_payload: [UserT; USER], user_slot: Slot<User<{ user() }>> },
            UserB([Slot<User<UserT>>; { user() }]),
        }
    });
    let mut inside = Inside::default();
    inside.visit_file(&file);
    assert_eq!(inside.blocks.len(), 3); // two built, one written
    for block in &inside.blocks {
        assert!(!block.to_lowercase().contains("user"), "{block}");
    }
    assert!(!inside.rest);
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(DeriveInput, &[&str]); 8] = [
        (parse_quote!(union U { a: u8, b: u8 }), &["union"]),
        (
            parse_quote!(
                struct S<'a> {
                    a: &'a str,
                }
            ),
            &["no lifetime parameter", "no borrowed field"],
        ),
        (
            parse_quote!(
                enum E {
                    A((&str)),
                }
            ),
            &["no borrowed field"],
        ),
        (
            parse_quote!(
                #[repr(C, packed(4))]
                struct S {
                    a: Slot<S>,
                }
            ),
            &["packed"],
        ),
        (
            parse_quote!(
                #[trace(skip)]
                struct S;
            ),
            &["unknown option"],
        ),
        (
            parse_quote!(
                #[trace(crate = a, crate = b)]
                struct S;
            ),
            &["option given twice"],
        ),
        (
            parse_quote!(
                enum E {
                    #[trace(crate = a)]
                    A(#[trace(slot)] u8),
                }
            ),
            &["belongs on", "belongs on"],
        ),
        (
            parse_quote!(
                #[trace(crate = a::<{ evil() }>)]
                struct S;
            ),
            &["expected"],
        ),
    ];
    for (input, expected) in cases {
        let shown = text(&input);
        let found = messages(input);
        assert_eq!(found.len(), expected.len(), "{shown}: {found:?}");
        for (message, part) in found.iter().zip(expected) {
            assert!(message.contains(part), "{shown}: {message}");
        }
    }
}

#[test]
fn harmless_neighbours_of_the_refusals_pass() {
    let inputs: [TokenStream; 4] = [
        quote!(
            struct S {
                a: &'static str,
                b: fn(&u8) -> &u8,
            }
        ),
        quote!(
            #[repr(C, packed)]
            struct S {
                a: u64,
            }
        ),
        quote!(
            #[repr(C, align(64))]
            struct S {
                a: Slot<S>,
            }
        ),
        quote!(
            #[serde(whatever)]
            struct S {
                #[serde(skip)]
                a: u8,
            }
        ),
    ];
    for input in inputs {
        let shown = input.to_string();
        let parsed = syn::parse2(input).expect("a type");
        assert!(expand(parsed).is_ok(), "{shown}");
    }
}

//! One table per own element gives the struct, its writer and its reader, so that names cannot drift apart.

use crate::attrs::{Attrs, excerpt};
use crate::xml::Xml;

/// Whole number.
pub(crate) mod count {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &u64) {
        x.num(name, v);
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> u64 {
        a.u64(name).unwrap_or_else(|| {
            a.missing(name);
            0
        })
    }
}

/// Nanoseconds, written as milliseconds with three decimals.
pub(crate) mod ms {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &u64) {
        x.ms(name, *v);
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> u64 {
        a.ms(name).unwrap_or_else(|| {
            a.missing(name);
            0
        })
    }
}

/// Nanoseconds that may be unknown.
pub(crate) mod opt_ms {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &Option<u64>) {
        if let Some(v) = v {
            x.ms(name, *v);
        }
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> Option<u64> {
        a.ms(name)
    }
}

/// Whole number that may be unknown.
pub(crate) mod opt_count {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &Option<u64>) {
        if let Some(v) = v {
            x.num(name, v);
        }
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> Option<u64> {
        a.u64(name)
    }
}

/// Parts per million, written as a percentage with four decimals.
pub(crate) mod ppm {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &u32) {
        x.num(name, format_args!("{}.{:04}", v / 10_000, v % 10_000));
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> u32 {
        a.percent(name).unwrap_or_else(|| {
            a.missing(name);
            0
        })
    }
}

/// Parts per million that may be unknown.
pub(crate) mod opt_ppm {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &Option<u32>) {
        if let Some(v) = v {
            super::ppm::put(x, name, v);
        }
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> Option<u32> {
        a.percent(name)
    }
}

/// Any text.
pub(crate) mod text {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &str) {
        x.attr(name, v);
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> String {
        a.text(name).unwrap_or_else(|| {
            a.missing(name);
            String::new()
        })
    }
}

/// Text that may be absent.
pub(crate) mod opt_text {
    use super::*;
    pub(crate) fn put(x: &mut Xml, name: &str, v: &Option<String>) {
        if let Some(v) = v {
            x.attr(name, v);
        }
    }
    pub(crate) fn take(a: &mut Attrs, name: &str) -> Option<String> {
        a.text(name)
    }
}

/// A choice that is written as one word each. The default is what a reader takes where no word is known.
pub(crate) trait Word: Copy + Default + 'static {
    const ALL: &[Self];
    fn word(self) -> &'static str;
}

/// One of a few words.
pub(crate) mod word {
    use super::*;
    pub(crate) fn put<T: Word>(x: &mut Xml, name: &str, v: &T) {
        x.attr(name, v.word());
    }
    pub(crate) fn take<T: Word>(a: &mut Attrs, name: &str) -> T {
        let Some(text) = a.text(name) else {
            a.missing(name);
            return T::default();
        };
        T::ALL.iter().copied().find(|v| v.word() == text).unwrap_or_else(|| {
            a.problem(format!("{name} \"{}\" unknown", excerpt(&text)));
            T::default()
        })
    }
}

/// Declares the struct of an own element with its attributes.
macro_rules! own_element {
    ($(#[$meta:meta])* pub struct $name:ident = $element:literal {
        $($(#[$fmeta:meta])* $field:ident: $ty:ty = $kind:ident $attr:literal,)*
    }) => {
        $(#[$meta])*
        #[doc = concat!("\n\nElement `<", $element, ">`.")]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fmeta])* #[doc = concat!(" Attribute `", $attr, "`.")] pub $field: $ty,)*
        }

        impl $name {
            pub(crate) const ELEMENT: &'static str = $element;

            pub(crate) fn put(&self, x: &mut $crate::xml::Xml) {
                $($crate::fields::$kind::put(x, $attr, &self.$field);)*
            }

            pub(crate) fn take(a: &mut $crate::attrs::Attrs) -> Self {
                Self { $($field: $crate::fields::$kind::take(a, $attr),)* }
            }
        }
    };
}
pub(crate) use own_element;

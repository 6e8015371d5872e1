//! The user's guide: a page for each subject, with its examples run as tests.
//!
//! The pages are the files of the folder `guide`, where their links lead from file to file. Here the same links lead from
//! module to module: of two definitions of a link the first counts, and the macro puts its own before the file's.

macro_rules! pages {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = "[references]: crate::guide::references\n[finalization]: crate::guide::finalization"]
        #[doc = "[collecting]: crate::guide::collecting\n[waiting]: crate::guide::waiting"]
        #[doc = "[realtime]: crate::guide::realtime\n[no-heap]: crate::guide::no_heap"]
        #[doc = "[short-quanta]: crate::guide::short_quanta"]
        #[doc = "[memory]: crate::guide::memory\n[notifications]: crate::guide::notifications"]
        #[doc = "[coming-from]: crate::guide::coming_from\n"]
        #[doc = include_str!($file)]
        pub mod $name {}
    )*};
}

pages! {
    contents = "../guide/README.md";
    references = "../guide/references.md";
    finalization = "../guide/finalization.md";
    collecting = "../guide/collecting.md";
    waiting = "../guide/waiting.md";
    realtime = "../guide/realtime.md";
    no_heap = "../guide/no-heap.md";
    short_quanta = "../guide/short-quanta.md";
    memory = "../guide/memory.md";
    notifications = "../guide/notifications.md";
    coming_from = "../guide/coming-from.md";
    verifier = "../guide/verification/verifier.md";
}

//! The elements that heartbeats and synchronous collections of both generations share.

use super::scan::Tag;
use crate::attrs::Attrs;
use crate::model::{ClassUnload, QueueOverflow, References, SoftReferences, Work};

impl Work {
    /// True if an element like this was there already.
    pub(super) fn has(&self, tag: &Tag) -> bool {
        match tag.name.as_str() {
            "classunload-info" | "classunloading" => self.class_unload.is_some(),
            // Whatever it says, it is there.
            "refs_cleared" => self.soft.is_some(),
            "references" => match tag.attrs.peek("type") {
                Some("soft") => self.soft.is_some(),
                Some("weak") => self.weak_cleared.is_some(),
                Some("phantom") => self.phantom_cleared.is_some(),
                _ => false,
            },
            "finalization" => self.finalizer_enqueued.is_some(),
            "work-packet-overflow" => self.overflow.is_some(),
            References::ELEMENT => self.references.is_some(),
            _ => false,
        }
    }

    /// Takes an element.
    pub(super) fn take(&mut self, name: &str, a: &mut Attrs) {
        match name {
            "classunloading" => {
                self.class_unload = Some(ClassUnload {
                    loaders: a.u64("classloaders"),
                    classes: a.u64("classes"),
                    anonymous: None,
                });
            }
            "classunload-info" => {
                self.class_unload = Some(ClassUnload {
                    loaders: a.u64("classloadersunloaded"),
                    classes: a.u64("classesunloaded"),
                    anonymous: a.u64("anonymousclassesunloaded"),
                });
            }
            "refs_cleared" => {
                self.soft = Some(SoftReferences {
                    cleared: a.u64("soft"),
                    threshold: a.u64("threshold"),
                    threshold_max: a.u64("maxThreshold"),
                });
                self.weak_cleared = a.u64("weak");
                self.phantom_cleared = a.u64("phantom");
            }
            "references" => match a.text("type").as_deref() {
                Some("soft") => {
                    self.soft = Some(SoftReferences {
                        cleared: a.u64("cleared"),
                        threshold: a.u64("dynamicThreshold"),
                        threshold_max: a.u64("maxThreshold"),
                    });
                }
                Some("weak") => self.weak_cleared = a.u64("cleared"),
                Some("phantom") => self.phantom_cleared = a.u64("cleared"),
                _ => a.problem("references of no known type".into()),
            },
            "finalization" => {
                self.finalizer_enqueued =
                    if a.has("enqueued") { a.u64("enqueued") } else { a.u64("objectsqueued") };
            }
            "work-packet-overflow" => self.take_overflow(a),
            References::ELEMENT => self.references = Some(References::take(a)),
            _ => a.problem("element not understood".into()),
        }
    }

    /// Overflow of the mark queue, which the 2007 form writes as a warning.
    pub(super) fn take_overflow(&mut self, a: &mut Attrs) {
        self.overflow =
            Some(QueueOverflow { packets: a.u64("packetCount"), objects: a.u64("directObjectCount") });
    }
}

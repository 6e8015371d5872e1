//! The re-mark validator: a second mark, as simple as can be, of which the first must not have missed anything.
//!
//! # What is asserted
//! Everything that the roots reach when marking ends is marked (INV-REMARK), leaves of arrays included. Roots are all
//! handles, soft references that keep their objects in this cycle, objects whose finalizers are queued, and values of
//! ephemerons whose keys are reached. The converse does not hold: what is marked besides is floating garbage, which is
//! counted. To that belongs what only a local of a mutator holds, since no stack is ever scanned.

use super::graph::Graph;
use super::outcome::{Floating, View};
use super::verifier::Out;
use std::collections::HashSet;

pub(super) fn check(graph: &Graph<'_>, view: &View, out: &mut Out<'_>) -> Floating {
    let s = graph.s;
    let mut seen: HashSet<usize> = HashSet::new();
    let mut queue: Vec<*mut u8> = Vec::new();
    graph.for_each_root(|p, _| queue.push(p));
    queue.extend(&view.softs);
    let mut values = graph.ephemerons();
    let missed = |p: *mut u8, what: &str, out: &mut Out<'_>| {
        let detail = format!("a fresh mark finds {what}, which the cycle has not marked");
        out.report_with("INV-REMARK", detail, || graph.path(p));
    };
    while let Some(p) = queue.pop() {
        if p.is_null() || !seen.insert(p.addr()) {
            continue;
        }
        let object = match graph.object(p) {
            Ok(object) => object,
            Err(why) => {
                out.report_with("INV-REMARK", format!("a fresh mark finds {p:p}, which {why}"), || {
                    graph.path(p)
                });
                continue;
            }
        };
        if !s.space.is_marked(p) {
            missed(p, &graph.describe(p), out);
        }
        let children = graph.children(object);
        for l in children.leaves {
            seen.insert(l.addr());
            if graph.is_leaf(l) && !s.space.is_marked(l) {
                missed(p, &format!("the leaf {l:p} of {}", graph.describe(p)), out);
            }
        }
        queue.extend(children.objects);
        queue.extend(values.remove(&p.addr()).unwrap_or_default().into_iter().map(|(_, v)| v));
    }
    let mut floating = Floating::default();
    // Cells that cursors reserve are marked while objects are born black, and are no objects.
    s.space.for_each_allocated(|c, marked| {
        let p = c.as_ptr();
        if marked && !seen.contains(&p.addr()) && graph.holds_something(p) {
            floating.objects += u64::from(!s.space.is_leaf(p));
            floating.bytes += s.space.cell_bytes(p);
        }
    });
    floating
}

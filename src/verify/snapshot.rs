//! The snapshot validator: what Yuasa's barrier promises, checked edge by edge.
//!
//! # What is asserted
//! At arming, the references of every object are recorded, reachable or not, and every handle. When marking ends
//! (INV-SNAPSHOT):
//! 1. if an object of the record is marked, everything that it referred to at arming is marked;
//! 2. if one of its slots holds something else now, what it held at arming is marked, whether the object is or not;
//! 3. if a handle of the record still holds its object, that is marked.
//!
//! # Why it holds
//! (2) A slot changes by a store, and each store shades exactly what it removes, from arming on (rule 1 of the barrier);
//! of several stores into one slot the first removes what the record has. (1) A marked object has been scanned when
//! marking ends, since nothing is grey: at that time the slot held what the record has, and that was marked, or it held
//! something else, which is (2). (3) Tables are taken after arming, and an entry that is not taken was emptied before.
//!
//! A mutator's table is taken when it has passed a safepoint, not at arming, and dropping a `Root` or `Global` has no
//! barrier: so the record's handles are no snapshot of their own, and (3) is about those only that still stand. It follows
//! by (1) that all that such handles reached at arming is marked. What a local held at arming shows here as soon as it
//! is stored or unlinked.

use super::graph::{Children, Graph, Object};
use super::verifier::Out;

/// The graph at arming. O(heap) memory, outside the heap.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Objects and where their references begin in `edges`.
    objects: Vec<(usize, usize)>,
    edges: Vec<usize>,
    roots: Vec<usize>,
}

fn addresses(children: &Children) -> impl Iterator<Item = usize> + '_ {
    children.objects.iter().map(|p| p.expose_provenance())
}

impl Snapshot {
    pub(super) fn record(graph: &Graph<'_>) -> Snapshot {
        let mut out = Snapshot { objects: Vec::new(), edges: Vec::new(), roots: Vec::new() };
        graph.for_each(|object, _| {
            out.objects.push((object.cell.expose_provenance(), out.edges.len()));
            out.edges.extend(addresses(&graph.children(object)));
        });
        graph.for_each_root(|p, _| out.roots.push(p.expose_provenance()));
        out
    }

    /// Marking has ended: nothing of the record may be lost.
    pub(super) fn compare(&self, graph: &Graph<'_>, out: &mut Out<'_>) {
        let marked = |p: usize| graph.s.space.is_marked(std::ptr::with_exposed_provenance(p));
        let ends = self.objects.iter().skip(1).map(|o| o.1).chain([self.edges.len()]);
        for (&(cell, begin), end) in self.objects.iter().zip(ends) {
            let cell = std::ptr::with_exposed_provenance_mut(cell);
            // The reaper has freed it in the meantime: it was dead before arming.
            let Ok(object) = graph.object(cell) else { continue };
            self.compare_object(graph, object, &self.edges[begin..end], out);
        }
        // Handles that were made since are at the end of their table, which shifts those of the next ones; so what counts
        // is whether a handle holds the object, not which.
        let mut now = std::collections::HashSet::new();
        graph.for_each_root(|p, _| {
            now.insert(p.addr());
        });
        for &p in self.roots.iter().filter(|&&p| p != 0 && now.contains(&p) && !marked(p)) {
            let p = std::ptr::with_exposed_provenance_mut(p);
            let detail = format!("a handle has held {} since arming, which is not marked", graph.describe(p));
            out.report_with("INV-SNAPSHOT", detail, || graph.path(p));
        }
    }

    fn compare_object(&self, graph: &Graph<'_>, object: Object, before: &[usize], out: &mut Out<'_>) {
        let space = &graph.s.space;
        let source_marked = space.is_marked(object.cell);
        let now: Vec<usize> = addresses(&graph.children(object)).collect();
        for (i, &target) in before.iter().enumerate().filter(|(_, p)| **p != 0) {
            let vanished = now.get(i) != Some(&target);
            let p = std::ptr::with_exposed_provenance_mut(target);
            if !(source_marked || vanished) || !space.contains(p) || space.is_marked(p) {
                continue;
            }
            let (from, to) = (graph.describe(object.cell), graph.describe(p));
            let what = if vanished { "no longer does" } else { "is marked" };
            let detail =
                format!("{from} referred to {to} at arming (reference {i}) and {what}; that is not marked");
            out.report_with("INV-SNAPSHOT", detail, || graph.path(p));
        }
    }
}

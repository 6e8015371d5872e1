//! The heap's checks: what must hold at each edge.
//!
//! | edge | besides what always holds |
//! |---|---|
//! | arm, end | nothing is marked, grey or logged (INV-ARM-CLEAN); no reference to a free cell (INV-NO-DANGLING) |
//! | mark, finalize | a white object that a black one refers to is protected by a grey one (INV-TRICOLOUR) |
//! | weak | nothing is grey or logged; all that handles reach is marked; no black object refers to a white one |
//! | phantom, sweep | the same; at sweep, weak references and registrations of unmarked objects are gone |
//!
//! Always: the space's own invariants; tables of handles; each leaf belongs to one array, and those of black arrays are
//! marked; what handles reach is an object.

use super::graph::{Graph, Object};
use super::outcome::{Edge, VerifyReport, View};
use super::tables;
use super::verifier::Out;
use std::collections::{HashMap, HashSet};

/// Checks what must hold at an edge.
pub(super) fn check(graph: &Graph<'_>, edge: Edge, view: &View, out: &mut Out<'_>) -> VerifyReport {
    let s = graph.s;
    if let Err(v) = s.space.verify_sweeping(view.unswept.clone()) {
        out.report(v.invariant, v.detail);
    }
    if edge.is_idle() || matches!(edge, Edge::Weak | Edge::Phantom | Edge::Sweep) {
        nothing_waits(graph, edge, out);
    }
    let handles = tables::check(graph, edge, out);
    reachable(graph, edge, out);
    let objects = every_object(graph, edge, view, out);
    VerifyReport {
        // Acquire: pairs with the Release at a cycle's end.
        cycles: s.cycles_done.load(std::sync::atomic::Ordering::Acquire),
        objects,
        reachable: graph.walk().len() as u64,
        handles,
    }
}

/// Nothing is grey or logged; outside of a cycle nothing is marked.
fn nothing_waits(graph: &Graph<'_>, edge: Edge, out: &mut Out<'_>) {
    let s = graph.s;
    // Between the end of Finalize and the sweep nothing shades, so that what held at its end still holds.
    let invariant = if edge.is_idle() { "INV-ARM-CLEAN" } else { "INV-LOG-DRAINED" };
    if !s.logs.is_drained() {
        out.report(invariant, format!("a log waits to be scanned at the edge {}", edge.name()));
    }
    s.space.for_each_grey(|cell| {
        out.report(invariant, format!("{} is grey", graph.describe(cell.as_ptr())));
    });
    for name in graph.logging() {
        out.report(invariant, format!("the log of mutator {name} is not empty"));
    }
    if edge.is_idle() {
        s.space.for_each_allocated(|cell, marked| {
            if marked {
                let p = cell.as_ptr();
                out.report_with(
                    invariant,
                    format!("{} is marked, and no cycle is active", graph.describe(p)),
                    || graph.path(p),
                );
            }
        });
    }
}

/// What handles reach is there, and marked where marks are complete.
fn reachable(graph: &Graph<'_>, edge: Edge, out: &mut Out<'_>) {
    let walk = graph.walk();
    for &(p, why) in &walk.broken {
        let p = std::ptr::with_exposed_provenance_mut(p);
        let invariant = if why.contains("header") { "INV-PUBLISH" } else { "INV-MARK-COMPLETE" };
        out.report_with(invariant, format!("reachable, but {p:p} {why}"), || graph.path(p));
    }
    if edge.is_marked() {
        for p in walk.reached() {
            if graph.s.space.is_allocated(p) && !graph.s.space.is_marked(p) {
                let detail = format!("reachable, but not marked: {}", graph.describe(p));
                out.report_with("INV-MARK-COMPLETE", detail, || graph.path(p));
            }
        }
    }
}

/// Goes through all objects, reachable or not. How many there are.
fn every_object(graph: &Graph<'_>, edge: Edge, view: &View, out: &mut Out<'_>) -> u64 {
    let space = &graph.s.space;
    let greys: HashSet<usize> = view.greys.iter().map(|p| p.addr()).collect();
    // In whose table each leaf is.
    let mut owners: HashMap<usize, *mut u8> = HashMap::new();
    // White objects that black ones refer to, and from where.
    let mut suspects: Vec<(*mut u8, Object)> = Vec::new();
    let mut objects = 0;
    graph.for_each(|object, marked| {
        objects += 1;
        let children = graph.children(object);
        let black = marked && !greys.contains(&object.cell.addr());
        for &l in &children.leaves {
            let path = || graph.path(object.cell);
            let array = || graph.describe(object.cell);
            if !graph.is_leaf(l) {
                let invariant = if edge.is_idle() { "INV-NO-DANGLING" } else { "INV-LEAF-OWNER" };
                out.report_with(
                    invariant,
                    format!("{} refers to {l:p}, which is no leaf in use", array()),
                    path,
                );
                continue;
            }
            if let Some(other) = owners.insert(l.addr(), object.cell) {
                let detail =
                    format!("the leaf {l:p} belongs to {} and to {}", array(), graph.describe(other));
                out.report_with("INV-LEAF-OWNER", detail, path);
            }
            if black && (edge.is_marked() || edge.is_marking()) && !space.is_marked(l) {
                let detail = format!("the leaf {l:p} of {} is not marked", array());
                out.report_with("INV-LEAF-MARKED", detail, path);
            }
        }
        // A dead object with drop glue whose region was owned during the sweep is condemned one cycle later.
        let passed_over = object.info.drop.is_some() && !marked;
        for &c in children.objects.iter().filter(|c| !c.is_null()) {
            let from = || graph.describe(object.cell);
            if edge.is_idle() && !passed_over && !space.is_allocated(c) {
                let detail = format!("{} refers to the free cell {c:p}", from());
                out.report_with("INV-NO-DANGLING", detail, || graph.path(object.cell));
            }
            if edge.is_marked() && marked && !(space.is_allocated(c) && space.is_marked(c)) {
                let detail = format!("{} is marked and refers to unmarked {c:p}", from());
                out.report_with("INV-NO-BLACK-TO-WHITE", detail, || graph.path(object.cell));
            }
            if edge.is_marking() && black && space.is_allocated(c) && !space.is_marked(c) {
                suspects.push((c, object));
            }
        }
    });
    if !suspects.is_empty() {
        tricolour(graph, view, suspects, out);
    }
    objects
}

/// The weak tricolour invariant: each suspect is reached from a grey object through white ones.
fn tricolour(graph: &Graph<'_>, view: &View, suspects: Vec<(*mut u8, Object)>, out: &mut Out<'_>) {
    let space = &graph.s.space;
    let mut protected: HashSet<usize> = HashSet::new();
    let mut queue: Vec<*mut u8> = view.greys.clone();
    while let Some(p) = queue.pop() {
        if p.is_null() || !protected.insert(p.addr()) {
            continue;
        }
        if let Ok(object) = graph.object(p) {
            let white = |c: &*mut u8| !c.is_null() && space.is_allocated(*c) && !space.is_marked(*c);
            queue.extend(graph.children(object).objects.into_iter().filter(white));
        }
    }
    for (white, black) in suspects {
        if !protected.contains(&white.addr()) {
            let (from, to) = (graph.describe(black.cell), graph.describe(white));
            let detail = format!(
                "{from} is black and refers to {to}, which is white and which no grey object protects"
            );
            out.report_with("INV-TRICOLOUR", detail, || graph.path(white));
        }
    }
}

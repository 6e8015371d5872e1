//! Handles, weak references, registrations: the tables themselves, and that what they refer to is there.

use super::graph::Graph;
use super::outcome::Edge;
use super::verifier::Out;
use crate::shared::Shared;
use crate::table::Table;

/// Checks all tables. Entries in use.
pub(super) fn check(graph: &Graph<'_>, edge: Edge, out: &mut Out<'_>) -> u64 {
    let s = graph.s;
    structures(s, graph, out);
    graph.for_each_root(|p, what| {
        if !p.is_null()
            && let Err(why) = graph.object(p)
        {
            out.report("INV-MARK-COMPLETE", format!("{} refers to {p:p}, which {why}", what()));
        }
    });
    type Get<'a> = &'a dyn Fn(u32) -> *mut u8;
    let weak: [(&str, u32, Get<'_>); 5] = [
        ("weak reference", s.weaks.len(), &|i| s.weaks.get(i)),
        ("long weak reference", s.longs.len(), &|i| s.longs.get(i)),
        ("soft reference", s.softs.len(), &|i| s.softs.get(i)),
        ("ephemeron", s.ephemerons.len(), &|i| s.ephemerons.get(i)),
        ("notice of death", s.deaths.len(), &|i| s.deaths.object(i)),
    ];
    let cleared = edge == Edge::Sweep;
    for (what, len, get) in weak {
        for i in 0..len {
            let p = get(i);
            if p.is_null() {
                continue;
            }
            if let Err(why) = graph.object(p) {
                out.report(
                    "INV-WEAK-CLEARED",
                    format!("{what} {i} refers to the dead cell {p:p}, which {why}"),
                );
            } else if cleared && !s.space.is_marked(p) {
                let object = graph.describe(p);
                out.report("INV-WEAK-CLEARED", format!("{what} {i} still refers to {object}, which is dead"));
            }
        }
    }
    for i in 0..s.finalizers.len() {
        let p = s.finalizers.object(i);
        if p.is_null() {
            continue;
        }
        if let Err(why) = graph.object(p) {
            let detail = format!("the finalizer of the dead cell {p:p}, which {why}, is still registered");
            out.report("INV-REGISTRATION", detail);
        } else if cleared && !s.space.is_marked(p) {
            let detail =
                format!("the finalizer of {}, which is dead, is still registered", graph.describe(p));
            out.report("INV-REGISTRATION", detail);
        }
    }
    for i in 0..s.ephemerons.len() {
        let (key, value) = (s.ephemerons.get(i), s.ephemerons.value(i));
        if key.is_null() {
            continue;
        }
        match graph.object(value) {
            Err(why) if graph.object(key).is_ok() => {
                out.report("INV-EPHEMERON", format!("the value of ephemeron {i}, {value:p}, {why}"));
            }
            Ok(_) if edge.is_marked() && s.space.is_marked(key) && !s.space.is_marked(value) => {
                let detail = format!("ephemeron {i}: the key {key:p} is marked, the value {value:p} is not");
                out.report("INV-EPHEMERON", detail);
            }
            _ => {}
        }
    }
    let roots: u64 = s.records().map(|r| u64::from(r.roots.live())).sum();
    let weak = [s.globals.live(), s.weaks.live(), s.longs.live(), s.softs.live(), s.ephemerons.live()];
    roots + weak.into_iter().map(u64::from).sum::<u64>()
}

fn structures(s: &Shared, graph: &Graph<'_>, out: &mut Out<'_>) {
    fn table<X: Default>(t: &Table<X>, what: &str, out: &mut Out<'_>) {
        if let Err(why) = t.verify() {
            out.report("INV-TABLE-EMPTY", format!("the table of {what}: {why}"));
        }
    }
    for r in s.records() {
        table(&r.roots, &format!("roots of {}", r.name()), out);
    }
    table(&s.globals, "globals", out);
    table(&s.weaks, "weak references", out);
    table(&s.longs, "long weak references", out);
    table(&s.softs, "soft references", out);
    table(&s.ephemerons, "ephemerons", out);
    if let Err(why) = s.deaths.verify() {
        out.report("INV-TABLE-EMPTY", format!("the table of notices of death: {why}"));
    }
    if let Err(why) = s.finalizers.verify(|p| graph.object(p).is_ok()) {
        out.report("INV-REGISTRATION", format!("the table of finalizers: {why}"));
    }
}

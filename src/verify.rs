//! The heap verifier: checks the collector's invariants at the edges of phases, against a traversal of its own.
//!
//! O(heap), while stopped; on when `METRONOME_VERIFY=1` is set, and in tests.

use crate::array::shape_of;
use crate::collector::Stopped;
use crate::mark::MarkQueue;
use crate::shared::Shared;
use crate::trace::{Kind, Tracer, TypeInfo};
use metronome_arraylet::array::{INDEX_FAN_OUT, LEN_OFFSET, TABLE_OFFSET, top_entries};
use std::collections::{HashMap, HashSet};

pub use metronome_arraylet::Violation;

const AT_MOST: usize = 8;

fn report(out: &mut Vec<Violation>, invariant: &'static str, detail: String) {
    if out.len() < AT_MOST {
        out.push(Violation { invariant, detail });
    }
}

/// Cells that are reserved by cursors but hold no object.
fn reserved(s: &Shared) -> HashSet<usize> {
    let mut rests = Vec::new();
    for r in s.records() {
        // SAFETY: the callers are stopped (INV-STOP-EXCLUSIVE).
        unsafe { (*r.local.get()).cursors.for_each_rest(|from, to| rests.push((from.addr(), to.addr()))) };
    }
    let mut cells = HashSet::new();
    s.space.for_each_allocated(|c, _| {
        if rests.iter().any(|&(from, to)| (from..to).contains(&c.addr().get())) {
            cells.insert(c.addr().get());
        }
    });
    cells
}

/// References that an object holds, and for spines the leaves.
struct Children {
    objects: Vec<*mut u8>,
    leaves: Vec<*mut u8>,
}

/// # Safety
/// `cell` holds a complete object or a spine under construction; stopped.
unsafe fn children(s: &Shared, cell: *mut u8) -> (&'static TypeInfo, Children) {
    let mut out = Children { objects: vec![], leaves: vec![] };
    // SAFETY: by this function's contract.
    let info = unsafe { crate::header::info(cell) }.expect("the cell holds an object");
    match info.kind {
        Kind::Leaf => {}
        Kind::Object(trace) => {
            let mut queue = MarkQueue::new(2);
            let mut tracer = Tracer { queue: &mut queue, space: &s.space, children: Some(&mut out.objects) };
            // SAFETY: the header says so.
            unsafe { trace(cell, &mut tracer) };
        }
        Kind::Values | Kind::Slots => {
            let slots = matches!(info.kind, Kind::Slots);
            // SAFETY: a spine, whose table was cleared before anything could pause.
            unsafe { spine_children(cell, slots, &mut out) };
        }
    }
    out.objects.retain(|p| !p.is_null());
    (info, out)
}

/// # Safety
/// `cell` is a spine, perhaps with leaves missing; stopped.
unsafe fn spine_children(cell: *mut u8, slots: bool, out: &mut Children) {
    // SAFETY: by this function's contract.
    let (full, depth) = unsafe { shape_of(cell) };
    let top = top_entries(full, depth);
    // SAFETY: the table has `top` entries.
    let mut level: Vec<*mut u8> = (0..top)
        .map(|i| unsafe { *cell.add(TABLE_OFFSET).cast::<*mut u8>().add(i) })
        .filter(|p| !p.is_null())
        .collect();
    for _ in 1..depth.max(1) {
        out.leaves.extend(&level);
        level = level
            .iter()
            // SAFETY: index leaves are 512 pointers, zeroed when made.
            .flat_map(|&l| (0..INDEX_FAN_OUT).map(move |i| unsafe { *l.cast::<*mut u8>().add(i) }))
            .filter(|p| !p.is_null())
            .collect();
    }
    out.leaves.extend(&level);
    if !slots || level.len() != full {
        // Values, or an array under construction, whose slots are not yet written.
        return;
    }
    for &l in &level {
        // SAFETY: a complete leaf of 512 slots.
        out.objects.extend((0..INDEX_FAN_OUT).map(|i| unsafe { *l.cast::<*mut u8>().add(i) }));
    }
    // SAFETY: the length word and the tail are part of the spine.
    unsafe {
        let len = cell.add(LEN_OFFSET).cast::<usize>().read();
        let first = if depth == 0 { 0 } else { full * INDEX_FAN_OUT };
        let tail = cell.add(metronome_arraylet::array::tail_offset(top, 8)).cast::<*mut u8>();
        out.objects.extend((0..len - first).map(|i| *tail.add(i)));
    }
}

/// Calls `f` with each object: cell, marked, type, children.
fn scan_all(s: &Shared, mut f: impl FnMut(*mut u8, bool, &'static TypeInfo, &Children)) {
    let reserved = reserved(s);
    let mut cells = Vec::new();
    s.space.for_each_allocated(|c, marked| {
        let p = c.as_ptr();
        if !reserved.contains(&p.addr()) && !s.space.is_leaf(p) && !s.space.is_condemned(p) {
            cells.push((p, marked));
        }
    });
    for (p, marked) in cells {
        // SAFETY: an allocated, unreserved, headed cell: objects are complete whenever mutators are stopped, since
        // no pause point lies between taking a cell and writing the object; spines are written before any.
        unsafe {
            if (*p.cast::<usize>()) == 0 {
                continue;
            }
            let (info, ch) = children(s, p);
            f(p, marked, info, &ch);
        }
    }
}

/// At the end of marking: the space is consistent; everything that handles reach is marked; no marked object refers
/// to an unmarked one.
pub(crate) fn at_termination(s: &Shared, _: &Stopped<'_>, out: &mut Vec<Violation>) {
    if let Err(v) = s.space.verify() {
        report(out, v.invariant, v.detail);
    }
    if !s.logs.is_drained() || s.space.has_grey() {
        report(out, "INV-LOG-DRAINED", "logs or grey bits are left at the end of marking".into());
    }
    for r in s.records() {
        // SAFETY: stopped.
        if !unsafe { (*r.local.get()).log.is_empty() } {
            report(out, "INV-LOG-DRAINED", format!("the log of mutator {} is not empty", r.name()));
        }
    }
    // Depth-first from the handles, with the way back.
    let mut from: HashMap<usize, (usize, &'static str)> = HashMap::new();
    let mut queue: Vec<*mut u8> = Vec::new();
    let root = |p: *mut u8, what: &'static str, queue: &mut Vec<*mut u8>, from: &mut HashMap<_, _>| {
        if !p.is_null() && from.insert(p.addr(), (0, what)).is_none() {
            queue.push(p);
        }
    };
    for r in s.records() {
        for i in 0..r.roots.len() {
            root(r.roots.get(i), "a Root", &mut queue, &mut from);
        }
    }
    for i in 0..s.globals.len() {
        root(s.globals.get(i), "a Global", &mut queue, &mut from);
    }
    for i in 0..s.finalizers.len() {
        root(s.finalizers.root(i), "a queued finalizer", &mut queue, &mut from);
    }
    // A key that is reached reaches its values.
    let mut values: HashMap<usize, Vec<*mut u8>> = HashMap::new();
    for i in 0..s.ephemerons.len() {
        let (key, value) = (s.ephemerons.get(i), s.ephemerons.value(i));
        if !key.is_null() {
            values.entry(key.addr()).or_default().push(value);
            if s.space.is_marked(key) && !s.space.is_marked(value) {
                let detail = format!("ephemeron {i}: the key {key:p} is marked, the value {value:p} is not");
                report(out, "INV-EPHEMERON", detail);
            }
        }
    }
    let way = |p: usize, from: &HashMap<usize, (usize, &'static str)>| {
        let (mut at, mut text) = (p, format!("{p:#x}"));
        while let Some(&(parent, what)) = from.get(&at) {
            text = if parent == 0 { format!("{what} -> {text}") } else { format!("{parent:#x} -> {text}") };
            if parent == 0 || text.len() > 400 {
                break;
            }
            at = parent;
        }
        text
    };
    while let Some(p) = queue.pop() {
        if !s.space.is_allocated(p) {
            report(
                out,
                "INV-MARK-COMPLETE",
                format!("a freed object is reachable: {}", way(p.addr(), &from)),
            );
            continue;
        }
        if !s.space.is_marked(p) {
            report(out, "INV-MARK-COMPLETE", format!("reachable but not marked: {}", way(p.addr(), &from)));
        }
        // SAFETY: an allocated object that a handle reaches is complete.
        let (_, ch) = unsafe { children(s, p) };
        for &l in &ch.leaves {
            if !s.space.is_marked(l) {
                report(out, "INV-LEAF-MARKED", format!("a leaf is not marked: {}", way(p.addr(), &from)));
            }
        }
        for c in ch.objects.into_iter().chain(values.remove(&p.addr()).unwrap_or_default()) {
            if let std::collections::hash_map::Entry::Vacant(e) = from.entry(c.addr()) {
                e.insert((p.addr(), ""));
                queue.push(c);
            }
        }
    }
    scan_all(s, |p, marked, info, ch| {
        if !marked {
            return;
        }
        for &c in &ch.objects {
            if !s.space.is_allocated(c) || !s.space.is_marked(c) {
                let name = (info.name)();
                report(
                    out,
                    "INV-NO-BLACK-TO-WHITE",
                    format!("{name} at {p:p} is marked and refers to unmarked {c:p}"),
                );
            }
        }
    });
}

/// At the end of a cycle: the space is consistent, and nothing that is allocated refers to a free cell.
pub(crate) fn at_end(s: &Shared, _: &Stopped<'_>, out: &mut Vec<Violation>) {
    if let Err(v) = s.space.verify() {
        report(out, v.invariant, v.detail);
    }
    scan_all(s, |p, _, info, ch| {
        // A dead object with drop glue whose region was owned during the sweep is condemned one cycle later.
        if info.drop.is_some() {
            return;
        }
        for &c in ch.objects.iter().chain(&ch.leaves) {
            if !s.space.is_allocated(c) {
                let name = (info.name)();
                report(out, "INV-NO-DANGLING", format!("{name} at {p:p} refers to the free cell {c:p}"));
            }
        }
    });
    let dangling = |c: *mut u8| !c.is_null() && (!s.space.is_allocated(c) || s.space.is_condemned(c));
    type Get<'a> = &'a dyn Fn(u32) -> *mut u8;
    let weak: [(&str, u32, Get<'_>); 5] = [
        ("weak reference", s.weaks.len(), &|i| s.weaks.get(i)),
        ("long weak reference", s.longs.len(), &|i| s.longs.get(i)),
        ("soft reference", s.softs.len(), &|i| s.softs.get(i)),
        ("ephemeron", s.ephemerons.len(), &|i| s.ephemerons.get(i)),
        ("notice of death", s.deaths.len(), &|i| s.deaths.object(i)),
    ];
    for (what, len, get) in weak {
        for i in (0..len).filter(|&i| dangling(get(i))) {
            report(out, "INV-WEAK-CLEARED", format!("{what} {i} refers to the dead cell {:p}", get(i)));
        }
    }
    for i in (0..s.finalizers.len()).filter(|&i| dangling(s.finalizers.object(i))) {
        let c = s.finalizers.object(i);
        report(out, "INV-REGISTRATION", format!("the finalizer of the dead cell {c:p} is still registered"));
    }
}

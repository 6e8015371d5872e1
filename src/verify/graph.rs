//! The heap as a graph, for the checks: which cells hold objects, what these refer to, how handles lead there.
//!
//! # Safety
//! The mutators are stopped (INV-STOP-EXCLUSIVE), so objects do not change and cells are not freed, but for condemned
//! ones, which the reaper may be working on and which are never read here. A cell is read only after [`Graph::object`] has
//! found it to be the first byte of an allocated cell that no cursor reserves and that has a header: then it holds a
//! complete object (INV-PUBLISH), or a spine under construction, whose table is cleared before anything could pause.

use crate::array::shape_of;
use crate::mark::MarkQueue;
use crate::shared::Shared;
use crate::trace::{Kind, TYPE_TAG, Tracer, TypeInfo};
use metronome_arraylet::array::{INDEX_FAN_OUT, LEN_OFFSET, TABLE_OFFSET, tail_offset, top_entries};
use metronome_barrier::Phase;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

/// What an object refers to, in the order of its slots, nulls included; for spines also the leaves.
#[derive(Debug, Default)]
pub(super) struct Children {
    pub(super) objects: Vec<*mut u8>,
    pub(super) leaves: Vec<*mut u8>,
}

/// An object that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) cell: *mut u8,
    pub(super) info: &'static TypeInfo,
}

/// How each reachable object is reached: from which object, or (0) by which handle.
#[derive(Debug, Default)]
pub(super) struct Walk {
    from: HashMap<usize, (usize, String)>,
    /// References to what is no object, with the reason.
    pub(super) broken: Vec<(usize, &'static str)>,
}

impl Walk {
    pub(super) fn reached(&self) -> impl Iterator<Item = *mut u8> + '_ {
        self.from.keys().map(|&p| std::ptr::with_exposed_provenance_mut(p))
    }

    pub(super) fn len(&self) -> usize {
        self.from.len()
    }
}

/// Elements of a path that are printed.
const PATH_MAX: usize = 12;

/// A stopped heap.
pub(super) struct Graph<'a> {
    pub(super) s: &'a Shared,
    /// Ranges that cursors reserve, in order.
    rests: Vec<(usize, usize)>,
    /// Headers that have been found to be type information.
    known: RefCell<HashSet<usize>>,
    walk: OnceCell<Walk>,
    /// A tracer has one, and does not use it while it collects.
    unused: RefCell<MarkQueue>,
}

impl<'a> Graph<'a> {
    /// Looks at a heap. While stopped.
    pub(super) fn new(s: &'a Shared) -> Graph<'a> {
        let mut rests = Vec::new();
        for r in s.records() {
            // SAFETY: the callers are stopped (INV-STOP-EXCLUSIVE).
            unsafe {
                (*r.local.get()).cursors.for_each_rest(|from, to| rests.push((from.addr(), to.addr())))
            };
        }
        rests.sort_unstable();
        Graph { s, rests, known: RefCell::default(), walk: OnceCell::new(), unused: MarkQueue::new(2).into() }
    }

    fn is_reserved(&self, cell: *mut u8) -> bool {
        let after = self.rests.partition_point(|&(from, _)| from <= cell.addr());
        after > 0 && cell.addr() < self.rests[after - 1].1
    }

    /// Whether a cell may be referred to: allocated, and, while regions are swept, marked or in a region that has been.
    pub(super) fn is_live(&self, p: *mut u8) -> bool {
        let space = &self.s.space;
        space.is_allocated(p)
            && (self.s.phase.get() != Phase::Sweep || space.is_swept(p) || space.is_marked(p))
    }

    /// The object at `p`, or why there is none.
    pub(super) fn object(&self, p: *mut u8) -> Result<Object, &'static str> {
        let space = &self.s.space;
        if !space.contains(p) {
            return Err("lies outside of the heap");
        }
        if !self.is_live(p) {
            return Err("is a freed cell");
        }
        if !space.is_cell(p) {
            return Err("is not the beginning of a cell");
        }
        if space.is_leaf(p) {
            return Err("is the leaf of an array");
        }
        if space.is_condemned(p) {
            return Err("is condemned");
        }
        if self.is_reserved(p) {
            return Err("is a cell that was not handed out");
        }
        // SAFETY: an allocated cell with a header word, which nobody writes while stopped.
        let word = unsafe { p.cast::<*mut TypeInfo>().read() };
        self.type_of(word).map(|info| Object { cell: p, info })
    }

    /// The type information that a header word points to. Looks before it reads.
    fn type_of(&self, word: *mut TypeInfo) -> Result<&'static TypeInfo, &'static str> {
        let info = word.map_addr(|a| a & !(align_of::<TypeInfo>() - 1));
        if info.is_null() {
            return Err("has no header");
        }
        if !self.known.borrow().contains(&info.addr()) {
            if !is_mapped(info.cast(), size_of::<TypeInfo>()) {
                return Err("has a header that is no type information");
            }
            // SAFETY: mapped, aligned, and as long as a word that is always initialised; a wild header can lead to no worse
            // than a word that is not the tag.
            if unsafe { (&raw const (*info).tag).read() } != TYPE_TAG {
                return Err("has a header that is no type information");
            }
            self.known.borrow_mut().insert(info.addr());
        }
        // SAFETY: the tag is in static type information only.
        Ok(unsafe { &*info })
    }

    /// What an object refers to.
    pub(super) fn children(&self, object: Object) -> Children {
        let mut out = Children::default();
        match object.info.kind {
            Kind::Leaf => {}
            Kind::Object(trace) => {
                let mut queue = self.unused.borrow_mut();
                let children = Some(&mut out.objects);
                let mut tracer = Tracer { queue: &mut queue, space: &self.s.space, children };
                // SAFETY: the header says so.
                unsafe { trace(object.cell, &mut tracer) };
            }
            Kind::Values => self.spine(object.cell, false, &mut out),
            Kind::Slots | Kind::LeafSlots => self.spine(object.cell, true, &mut out),
        }
        out
    }

    fn spine(&self, cell: *mut u8, slots: bool, out: &mut Children) {
        // SAFETY: a spine, perhaps with leaves missing.
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
                // What is no leaf is reported by who looks at `leaves`, and not followed.
                .filter(|l| self.is_leaf(**l))
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
        for &l in level.iter().filter(|l| self.is_leaf(**l)) {
            // SAFETY: a complete leaf of 512 slots.
            out.objects.extend((0..INDEX_FAN_OUT).map(|i| unsafe { *l.cast::<*mut u8>().add(i) }));
        }
        // SAFETY: the length word and the tail are part of the spine.
        unsafe {
            let len = cell.add(LEN_OFFSET).cast::<usize>().read();
            let first = if depth == 0 { 0 } else { full * INDEX_FAN_OUT };
            let tail = cell.add(tail_offset(top, 8)).cast::<*mut u8>();
            out.objects.extend((0..len - first).map(|i| *tail.add(i)));
        }
    }

    /// Whether `p` is a leaf that is in use.
    pub(super) fn is_leaf(&self, p: *mut u8) -> bool {
        let space = &self.s.space;
        space.contains(p) && self.is_live(p) && space.is_leaf(p) && space.is_cell(p) && !self.is_reserved(p)
    }

    /// Whether a cell holds an object or is a leaf.
    pub(super) fn holds_something(&self, p: *mut u8) -> bool {
        self.is_leaf(p) || self.object(p).is_ok()
    }

    /// Calls `f` with each object, reachable or not, and whether it is marked.
    pub(super) fn for_each(&self, mut f: impl FnMut(Object, bool)) {
        let mut cells = Vec::new();
        self.s.space.for_each_allocated(|c, marked| cells.push((c.as_ptr(), marked)));
        for (p, marked) in cells {
            // Cells without an object are those that cursors reserve, leaves, and those that the reaper has emptied;
            // a cell with a wild header is found when something refers to it.
            if let Ok(object) = self.object(p) {
                f(object, marked);
            }
        }
    }

    /// Every handle that keeps its object: `f` gets the reference and which handle it is.
    pub(super) fn for_each_root(&self, mut f: impl FnMut(*mut u8, &dyn Fn() -> String)) {
        let s = self.s;
        for r in s.records() {
            for i in 0..r.roots.len() {
                f(r.roots.get(i), &|| format!("Root {i} of {}", r.name()));
            }
        }
        for i in 0..s.globals.len() {
            f(s.globals.get(i), &|| format!("Global {i}"));
        }
        for i in 0..s.finalizers.len() {
            f(s.finalizers.root(i), &|| format!("queued finalizer {i}"));
        }
    }

    /// Names of the mutators whose logs are not empty.
    pub(super) fn logging(&self) -> Vec<std::sync::Arc<str>> {
        // SAFETY: stopped (INV-STOP-EXCLUSIVE).
        let logs = |r: &&crate::shared::Record| unsafe { !(*r.local.get()).log.is_empty() };
        self.s.records().filter(logs).map(|r| r.name()).collect()
    }

    /// Ephemerons by key: what is reached with it.
    pub(super) fn ephemerons(&self) -> HashMap<usize, Vec<(u32, *mut u8)>> {
        let table = &self.s.ephemerons;
        let mut values: HashMap<usize, Vec<(u32, *mut u8)>> = HashMap::new();
        for i in 0..table.len() {
            let (key, value) = (table.get(i), table.value(i));
            if !key.is_null() {
                values.entry(key.addr()).or_default().push((i, value));
            }
        }
        values
    }

    /// Everything that handles reach, and how. Made when first asked for.
    pub(super) fn walk(&self) -> &Walk {
        self.walk.get_or_init(|| {
            let mut walk = Walk::default();
            let mut queue = Vec::new();
            self.for_each_root(|p, what| {
                if !p.is_null() && !walk.from.contains_key(&p.expose_provenance()) {
                    walk.from.insert(p.addr(), (0, what()));
                    queue.push(p);
                }
            });
            let mut values = self.ephemerons();
            while let Some(p) = queue.pop() {
                let object = match self.object(p) {
                    Ok(object) => object,
                    Err(why) => {
                        walk.broken.push((p.addr(), why));
                        continue;
                    }
                };
                let tied = values.remove(&p.addr()).unwrap_or_default();
                let slots = self.children(object).objects.into_iter().map(|c| (c, String::new()));
                let tied = tied.into_iter().map(|(i, v)| (v, format!("by ephemeron {i} ")));
                for (c, how) in slots.chain(tied) {
                    if !c.is_null() && !walk.from.contains_key(&c.expose_provenance()) {
                        walk.from.insert(c.addr(), (p.addr(), how));
                        queue.push(c);
                    }
                }
            }
            walk
        })
    }

    /// The way from a handle to the object at `p`, if there is one.
    pub(super) fn path(&self, p: *mut u8) -> Option<String> {
        let walk = self.walk();
        let mut at = p.addr();
        let (mut parts, mut left_out) = (Vec::new(), 0);
        loop {
            let (parent, how) = walk.from.get(&at)?;
            let by = if *parent == 0 { "" } else { how };
            if parts.len() < PATH_MAX {
                parts.push(format!("{by}{}", self.describe(std::ptr::with_exposed_provenance_mut(at))));
            } else {
                left_out += 1;
            }
            if *parent == 0 {
                let skipped = if left_out > 0 { format!(" -> ({left_out} more)") } else { String::new() };
                let way: String = parts.iter().rev().map(|p| format!(" -> {p}")).collect();
                return Some(format!("{how}{skipped}{way}"));
            }
            at = *parent;
        }
    }

    /// An object for people: its type and address.
    pub(super) fn describe(&self, p: *mut u8) -> String {
        match self.object(p) {
            Ok(object) => format!("{} {p:p}", (object.info.name)()),
            Err(why) => format!("{p:p} (which {why})"),
        }
    }
}

/// Whether the pages of these bytes are mapped, by asking the system. At most a page of bytes.
fn is_mapped(p: *const u8, bytes: usize) -> bool {
    // SAFETY: sysconf has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let first = p.map_addr(|a| a & !(page - 1));
    let Some(end) = p.addr().checked_add(bytes) else { return false };
    let mut resident = [0u8; 2];
    // SAFETY: mincore looks at nothing but the page tables, and writes one byte for each page, of which these bytes touch at
    // most two.
    unsafe { libc::mincore(first.cast_mut().cast(), end - first.addr(), resident.as_mut_ptr()) == 0 }
}

const _: () = assert!(size_of::<TypeInfo>() <= 4096, "type information lies in at most two pages");

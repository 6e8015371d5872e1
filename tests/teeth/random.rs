//! Random programs: one to three mutators in lock-step, with collector steps at random pause points and safepoints in
//! between, against a model in standard collections.
//!
//! Every object carries its id. Whatever handles and locals reach must have the id that the model says; a weak
//! reference must yield a reachable object, and must not yield one that two whole cycles found unreachable; after
//! everything has been dropped the heap must be empty.
//!
//! `METRONOME_SEED` sets the first seed, `METRONOME_PROGRAMS` the number of programs.

use metronome_gc::config::Config;
use metronome_gc::testing::{Phase, TestHeap};
use metronome_gc::{Gc, GcArray, Global, Mutator, Root, Slot, Trace, Weak};
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Id = u64;

/// The steps of a tiny build do so much less: programs ask for more of them, to see whole cycles all the same.
pub(crate) const STEPS_SCALE: usize = if cfg!(metronome_tiny) { 8 } else { 1 };

/// An object's id, as plain payload or as payload with drop glue.
pub(crate) trait Tag: Send + Sync + 'static {
    fn of(id: Id) -> Self;
    fn id(&self) -> Id;
}

impl Tag for Id {
    fn of(id: Id) -> Id {
        id
    }
    fn id(&self) -> Id {
        *self
    }
}

impl Tag for Box<Id> {
    fn of(id: Id) -> Box<Id> {
        Box::new(id)
    }
    fn id(&self) -> Id {
        **self
    }
}

#[derive(Trace)]
struct Node<P: Tag> {
    tag: P,
    slots: [Slot<Node<P>>; 2],
    array: Slot<GcArray<Slot<Node<P>>>>,
}

/// What the model knows of an object.
#[derive(Clone, Default)]
struct Object {
    slots: [Option<Id>; 2],
    array: Option<Vec<Option<Id>>>,
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What the threads of a program share; the one whose turn it is acts.
struct World<P: Tag> {
    random: Random,
    turn: usize,
    threads: usize,
    left: usize,
    next_id: Id,
    objects: HashMap<Id, Object>,
    globals: Vec<(Global<Node<P>>, Id)>,
    weaks: Vec<(Weak<Node<P>>, Id, bool)>,
    /// Ids that each thread's roots and locals hold.
    roots: Vec<Vec<Id>>,
    locals: Vec<Vec<Id>>,
    /// How often each kind of step was met, to see that the programs reach them.
    upgraded_dead: usize,
    refused: usize,
    cycles: usize,
}

struct Stage<P: Tag> {
    heap: TestHeap,
    world: Mutex<World<P>>,
    changed: Condvar,
}

impl<P: Tag> World<P> {
    fn reachable(&self) -> HashSet<Id> {
        let mut seen = HashSet::new();
        let held = self.roots.iter().chain(&self.locals).flatten().copied();
        let mut stack: Vec<Id> = held.chain(self.globals.iter().map(|g| g.1)).collect();
        while let Some(id) = stack.pop() {
            if seen.insert(id) {
                let o = &self.objects[&id];
                stack.extend(o.slots.iter().chain(o.array.iter().flatten()).flatten());
            }
        }
        seen
    }
}

impl<P: Tag> Stage<P> {
    fn world(&self) -> MutexGuard<'_, World<P>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to a random thread and waits for the next one; false when the program is over.
    fn pass(&self, me: usize) -> bool {
        let mut w = self.world();
        w.turn = match w.threads {
            1 => me,
            n => w.random.below(n),
        };
        w.left = w.left.saturating_sub(1);
        self.changed.notify_all();
        self.wait(w, me)
    }

    fn wait(&self, mut w: MutexGuard<'_, World<P>>, me: usize) -> bool {
        while w.turn != me && w.left > 0 {
            w = self.changed.wait(w).unwrap_or_else(PoisonError::into_inner);
        }
        w.left > 0
    }
}

/// Ends the program for all if one thread fails.
struct EndAll<'a, P: Tag>(&'a Stage<P>);

impl<P: Tag> Drop for EndAll<'_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.world().left = 0;
            self.0.changed.notify_all();
        }
    }
}

#[derive(PartialEq)]
enum Next {
    Safepoint,
    Leave,
    End,
}

type Roots<P> = Vec<(Root<Node<P>>, Id)>;
type Local<'m, P> = (Gc<'m, Node<P>>, Id);

fn thread<P: Tag>(stage: &Stage<P>, me: usize) {
    let _end_all = EndAll(stage);
    let mut roots: Roots<P> = vec![];
    let mut go_on = stage.wait(stage.world(), me);
    while go_on {
        go_on = stage.heap.enter(|m| {
            loop {
                let next = segment(m, stage, &mut roots, me);
                stage.world().locals[me].clear();
                match next {
                    Next::End => return false,
                    Next::Leave => return true,
                    Next::Safepoint => {
                        let n = stage.world().random.below(20 * STEPS_SCALE);
                        let steps = stage.heap.at_safepoint(m, |h| h.steps(n));
                        stage.world().cycles += usize::from(steps.done);
                        assert_eq!(stage.heap.violations(), []);
                    }
                }
            }
        });
        if go_on {
            // Outside: only here may the drop glue of dead objects run on this thread.
            stage.heap.reap();
            go_on = stage.pass(me);
        }
    }
}

fn check<P: Tag>(got: Option<Gc<'_, Node<P>>>, want: Option<Id>) {
    assert_eq!(got.map(|n| n.tag.id()), want);
}

/// Operations between two safepoints of a thread.
fn segment<'m, P: Tag>(m: &'m Mutator<'_>, stage: &Stage<P>, roots: &mut Roots<P>, me: usize) -> Next {
    let mut locals: Vec<Local<'m, P>> = vec![];
    loop {
        let next = operation(m, stage, roots, &mut locals);
        {
            let mut w = stage.world();
            while locals.len() > 8 {
                locals.swap_remove(0);
            }
            w.locals[me] = locals.iter().map(|l| l.1).collect();
            w.roots[me] = roots.iter().map(|r| r.1).collect();
        }
        if let Some(next) = next {
            return next;
        }
        if !stage.heap.wait_paused(m, || stage.pass(me)) {
            return Next::End;
        }
    }
}

fn operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    roots: &mut Roots<P>,
    locals: &mut Vec<Local<'m, P>>,
) -> Option<Next> {
    let mut guard = stage.world();
    let w = &mut *guard;
    let kind = w.random.below(24);
    let pick = |w: &mut World<P>| match locals.len() {
        0 => None,
        n => Some(locals[w.random.below(n)]),
    };
    let (x, y) = (pick(w), pick(w));
    let slot = w.random.below(2);
    let value = if w.random.one_in(4) { None } else { y };
    let (new, new_id) = (value.map(|v| v.0), value.map(|v| v.1));
    match (kind, x) {
        (0..=2, _) => {
            let id = w.next_id;
            let init = NodeInit { tag: P::of(id), slots: [x.map(|x| x.0), new], array: None };
            if let Ok(node) = m.alloc(init) {
                w.next_id += 1;
                w.objects.insert(id, Object { slots: [x.map(|x| x.1), new_id], array: None });
                locals.push((node, id));
            }
        }
        (3 | 4, Some((x, id))) => {
            let (got, want) = (x.slots[slot].load(m), w.objects[&id].slots[slot]);
            check(got, want);
            locals.extend(got.zip(want));
        }
        (5, Some((x, id))) => {
            x.slots[slot].store(m, new);
            object(w, id).slots[slot] = new_id;
        }
        (6, Some((x, id))) => {
            let got = x.slots[slot].swap(m, new);
            let want = std::mem::replace(&mut object(w, id).slots[slot], new_id);
            check(got, want);
            locals.extend(got.zip(want));
        }
        (7, Some((x, id))) => {
            // Half of the time the exchange is meant to succeed.
            let current = if w.random.one_in(2) { x.slots[slot].load(m) } else { new };
            let now = w.objects[&id].slots[slot];
            let succeeds = current.map(|c| c.tag.id()) == now;
            let got = x.slots[slot].compare_exchange(m, current, new);
            assert_eq!(got.is_ok(), succeeds);
            let got = got.unwrap_or_else(|found| found);
            check(got, now);
            locals.extend(got.zip(now));
            if succeeds {
                object(w, id).slots[slot] = new_id;
            }
        }
        (8, Some((x, id))) => roots.push((Root::new(m, x), id)),
        (9, _) if !roots.is_empty() => {
            let (root, id) = &roots[w.random.below(roots.len())];
            let got = root.get(m);
            check(Some(got), Some(*id));
            locals.push((got, *id));
        }
        (10, _) if !roots.is_empty() => drop(roots.swap_remove(w.random.below(roots.len()))),
        (11, Some((x, id))) => w.globals.push((Global::new(m, x), id)),
        (12, _) if !w.globals.is_empty() => {
            let i = w.random.below(w.globals.len());
            let (global, id) = &w.globals[i];
            let got = global.get(m);
            check(Some(got), Some(*id));
            locals.push((got, *id));
        }
        (13, _) if !w.globals.is_empty() => {
            let i = w.random.below(w.globals.len());
            drop(w.globals.swap_remove(i));
        }
        (14, Some((x, id))) => w.weaks.push((Weak::new(m, x), id, false)),
        (15, _) if !w.weaks.is_empty() => {
            let i = w.random.below(w.weaks.len());
            let reachable = w.reachable();
            let (weak, id, gone) = &mut w.weaks[i];
            match weak.upgrade(m) {
                Some(got) => {
                    assert!(!*gone, "a weak reference came back");
                    check(Some(got), Some(*id));
                    locals.push((got, *id));
                    w.upgraded_dead += usize::from(!reachable.contains(id));
                }
                None => {
                    assert!(!reachable.contains(id), "a weak reference to a reachable object is gone");
                    *gone = true;
                    w.refused += 1;
                }
            }
        }
        (16, _) if !locals.is_empty() => drop(locals.swap_remove(w.random.below(locals.len()))),
        (17, Some((x, id))) => {
            let len = [3, 40, 1500][w.random.below(3)];
            if let Ok(array) = m.alloc_slots(len) {
                x.array.store(m, array);
                object(w, id).array = Some(vec![None; len]);
            }
        }
        (18 | 19, Some((x, id))) => array_operation(m, w, x, id, new, new_id, locals),
        (20..=22, _) => {
            // With all other threads waiting at pause points.
            let n = 1 + w.random.below(6);
            let steps = stage.heap.at_pause(m, |h| h.steps(n));
            w.cycles += usize::from(steps.done);
            assert_eq!(stage.heap.violations(), []);
        }
        (23, _) => match w.random.below(6) {
            0 => return Some(Next::Leave),
            1 => {
                drop(guard);
                compare(m, &stage.world(), roots);
            }
            _ => return Some(Next::Safepoint),
        },
        _ => {}
    }
    None
}

fn object<P: Tag>(w: &mut World<P>, id: Id) -> &mut Object {
    w.objects.get_mut(&id).expect("every object has its entry")
}

fn array_operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    x: Gc<'m, Node<P>>,
    id: Id,
    new: Option<Gc<'m, Node<P>>>,
    new_id: Option<Id>,
    locals: &mut Vec<Local<'m, P>>,
) {
    let got = x.array.load(m);
    let Some(want) = w.objects.get_mut(&id).and_then(|o| o.array.as_mut()) else {
        assert!(got.is_none());
        return;
    };
    let array = got.expect("the array is there");
    assert_eq!(array.len(), want.len());
    let i = w.random.below(want.len());
    match w.random.below(5) {
        0 | 1 => {
            array.store(m, i, new);
            want[i] = new_id;
        }
        2 => {
            let end = i + w.random.below(want.len() - i + 1);
            array.fill(m, i..end, new);
            want[i..end].fill(new_id);
        }
        3 => {
            let to = w.random.below(want.len());
            let len = w.random.below(want.len() - i.max(to) + 1);
            array.copy_from(m, to, array, i, len);
            want.copy_within(i..i + len, to);
        }
        _ => {
            let got = array.load(m, i);
            check(got, want[i]);
            locals.extend(got.zip(want[i]));
        }
    }
}

/// Walks everything that globals and this thread's roots reach, and compares it with the model.
fn compare<P: Tag>(m: &Mutator<'_>, w: &World<P>, roots: &Roots<P>) {
    let mut stack: Vec<(Gc<'_, Node<P>>, Id)> = vec![];
    stack.extend(roots.iter().map(|(r, id)| (r.get(m), *id)));
    stack.extend(w.globals.iter().map(|(g, id)| (g.get(m), *id)));
    let mut seen = HashSet::new();
    while let Some((node, id)) = stack.pop() {
        assert_eq!(node.tag.id(), id);
        if !seen.insert(id) {
            continue;
        }
        let want = &w.objects[&id];
        for (slot, want) in node.slots.iter().zip(want.slots) {
            let got = slot.load(m);
            check(got, want);
            stack.extend(got.zip(want));
        }
        match (node.array.load(m), &want.array) {
            (None, None) => {}
            (Some(array), Some(want)) => {
                assert_eq!(array.len(), want.len());
                for (i, &want) in want.iter().enumerate() {
                    let got = array.load(m, i);
                    check(got, want);
                    stack.extend(got.zip(want));
                }
            }
            (got, want) => panic!("array: {:?}, expected {:?}", got.is_some(), want.is_some()),
        }
    }
}

/// One program. Returns its counts of cycles, of upgrades of unreachable objects, and of refused upgrades.
fn program<P: Tag>(seed: u64) -> (usize, usize, usize) {
    let mut random = Random(seed);
    let threads = 1 + random.below(3);
    let config = Config { heap: 4 << 20, max_mutators: 8, log_buffers: 4, ..Config::DEFAULT };
    let stage = Stage::<P> {
        heap: TestHeap::new(config).unwrap(),
        world: Mutex::new(World {
            turn: random.below(threads),
            left: 400,
            random,
            threads,
            next_id: 1,
            objects: HashMap::new(),
            globals: vec![],
            weaks: vec![],
            roots: vec![vec![]; threads],
            locals: vec![vec![]; threads],
            upgraded_dead: 0,
            refused: 0,
            cycles: 0,
        }),
        changed: Condvar::new(),
    };
    std::thread::scope(|s| {
        for me in 0..threads {
            let stage = &stage;
            s.spawn(move || thread(stage, me));
        }
    });
    let heap = &stage.heap;
    let mut w = stage.world();
    // The threads' roots are dropped with the threads.
    w.roots.iter_mut().for_each(Vec::clear);
    w.locals.iter_mut().for_each(Vec::clear);
    finish(heap);
    assert_eq!(heap.violations(), []);
    heap.cycle();
    heap.cycle();
    assert_eq!(heap.violations(), []);
    let reachable = w.reachable();
    heap.enter(|m| {
        compare(m, &w, &vec![]);
        for (weak, id, gone) in &w.weaks {
            let got = weak.upgrade(m);
            assert!(!(*gone && got.is_some()));
            check(got, reachable.contains(id).then_some(*id));
        }
    });
    let counts = (w.cycles, w.upgraded_dead, w.refused);
    w.globals.clear();
    for _ in 0..2 {
        heap.cycle();
        heap.reap();
    }
    assert_eq!(heap.violations(), []);
    heap.enter(|m| assert!(w.weaks.iter().all(|(weak, ..)| weak.upgrade(m).is_none())));
    assert_eq!(heap.used_bytes(), 0);
    counts
}

fn finish(heap: &TestHeap) {
    if heap.phase() != Phase::Idle {
        let steps = heap.run_until(Phase::Idle);
        assert!(steps.done, "{steps:?}");
    }
}

pub(crate) fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The seed that the environment asks for, or one of the clock.
pub(crate) fn first_seed() -> u64 {
    variable("METRONOME_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |d| d.as_nanos() as u64) & 0xffff_ffff
    })
}

#[test]
fn random_programs() {
    let first = first_seed();
    let programs = variable("METRONOME_PROGRAMS").unwrap_or(300);
    println!("METRONOME_SEED={first} METRONOME_PROGRAMS={programs}");
    let mut sums = (0, 0, 0);
    for seed in first..first.saturating_add(programs) {
        let run = || if seed % 2 == 0 { program::<Id>(seed) } else { program::<Box<Id>>(seed) };
        match std::panic::catch_unwind(run) {
            Ok((cycles, upgraded, refused)) => {
                sums = (sums.0 + cycles, sums.1 + upgraded, sums.2 + refused);
            }
            Err(e) => {
                println!("failed: run it alone with METRONOME_SEED={seed} METRONOME_PROGRAMS=1");
                std::panic::resume_unwind(e);
            }
        }
    }
    println!("{sums:?} cycles, upgrades of unreachable objects, refused upgrades");
    if programs >= 100 {
        // The programs reach what they are meant to reach.
        assert!(sums.0 as u64 >= programs && sums.1 > 0 && sums.2 > 0, "{sums:?}");
    }
}

#![forbid(unsafe_code)]

use std::collections::HashMap;

use metronome_gc::{Gc, Heap, Mutator, Slot, Trace};

#[derive(Trace)]
struct Tree<K, V = u32>
where
    K: Ord + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    key: K,
    value: V,
    children: [Slot<Tree<K, V>>; 2],
}

fn find<'m, K: Ord + Send + Sync + 'static, V: Send + Sync + 'static>(
    m: &'m Mutator<'_>,
    root: Gc<'m, Tree<K, V>>,
    key: &K,
) -> Option<Gc<'m, Tree<K, V>>> {
    let mut at = Some(root);
    while let Some(node) = at {
        match key.cmp(&node.key) {
            std::cmp::Ordering::Equal => return Some(node),
            order => at = node.children[usize::from(order.is_gt())].load(m),
        }
    }
    None
}

#[derive(Trace)]
struct Link<T: Trace, const N: usize> {
    target: Slot<T>,
    more: [Slot<Link<T, N>>; N],
}

#[derive(Trace)]
struct Bag<T> {
    items: HashMap<String, T>,
}

fn main() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    heap.enter(|m| {
        let leaf = m.alloc(TreeInit { key: "b".to_owned(), value: 2_u32, children: [None, None] }).unwrap();
        let root = m.alloc(TreeInit { key: "a".to_owned(), value: 1, children: [None, Some(leaf)] }).unwrap();
        assert_eq!(find(m, root, &"b".to_owned()).unwrap().value, 2);
        assert!(find(m, root, &"c".to_owned()).is_none());
        let link = m.alloc(LinkInit::<_, 2> { target: Some(root), more: [None, None] }).unwrap();
        link.more[1].store(m, link);
        assert!(Gc::ptr_eq(link.more[1].load(m).unwrap().target.load(m).unwrap(), root));
        let bag = m.alloc(Bag { items: HashMap::from([(String::from("x"), 1.5_f64)]) }).unwrap();
        assert_eq!(bag.items["x"], 1.5);
    });
}

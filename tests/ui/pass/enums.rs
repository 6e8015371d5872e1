#![forbid(unsafe_code)]

use metronome_gc::{Gc, Heap, Mutator, Slot, Trace};

#[derive(Trace)]
enum Expression {
    Number(f64),
    Sum(Slot<Expression>, Slot<Expression>),
    Call { name: String, arguments: [Slot<Expression>; 2] },
    Nothing,
}

fn value(m: &Mutator<'_>, e: Option<Gc<'_, Expression>>) -> f64 {
    let Some(e) = e else { return 0.0 };
    match &*e {
        Expression::Number(n) => *n,
        Expression::Sum(a, b) => value(m, a.load(m)) + value(m, b.load(m)),
        Expression::Call { name, arguments } if name == "first" => value(m, arguments[0].load(m)),
        Expression::Call { arguments, .. } => value(m, arguments[1].load(m)),
        Expression::Nothing => 0.0,
    }
}

#[derive(Trace, Clone, Copy, PartialEq, Debug)]
enum Colour {
    Red,
    Other(u8),
}

fn main() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    heap.enter(|m| {
        let one = m.alloc(ExpressionInit::Number(1.0)).unwrap();
        let sum = m.alloc(ExpressionInit::Sum(Some(one), Some(one))).unwrap();
        let nothing = m.alloc(ExpressionInit::Nothing).unwrap();
        let call = m
            .alloc(ExpressionInit::Call { name: "first".into(), arguments: [Some(sum), Some(nothing)] })
            .unwrap();
        assert_eq!(value(m, Some(call)), 2.0);
        assert_eq!(*m.alloc(Colour::Other(3)).unwrap(), Colour::Other(3));
        assert_eq!(*m.alloc(Colour::Red).unwrap(), Colour::Red);
    });
}

#![forbid(unsafe_code)]

// A future that holds a reference over an `.await` is not `Send`, so no executor moves it to another thread.
use metronome_gc::{Gc, Payload};

async fn other() {}

fn spawn<F: Future + Send>(_: F) {}

fn run(object: Gc<'static, Payload<u32>>) {
    spawn(async move {
        other().await;
        println!("{}", object.0);
    });
}

fn main() {}

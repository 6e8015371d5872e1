//! A client that opens connections without end does not use up the program's file descriptors. A test of its own process,
//! which counts them.
#![forbid(unsafe_code)]

use metronome_live::{Client, Event, Hub, Record, Server};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn connections_are_bounded_and_who_comes_later_is_served() {
    if descriptors() == 0 {
        println!("skipped: no /proc/self/fd here");
        return;
    }
    let hub = Hub::new(1 << 20);
    hub.publish(&[Record { ns: 1, event: Event::TriggerStart }]);
    let server = Server::of_hub(Arc::clone(&hub), ([127, 0, 0, 1], 0)).unwrap();
    let before = descriptors();
    // No more than the system lets wait beside those that are accepted.
    let clients: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    let accepted = || descriptors() - before - clients.len();
    // As many as it takes, and then a long look for more; two for one that comes and one that goes.
    for look in 0.. {
        if accepted() >= 32 {
            break;
        }
        assert!(look < 10_000, "only {} were accepted", accepted());
        std::thread::sleep(Duration::from_millis(2));
    }
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(2));
        assert!(accepted() <= 34, "{}", accepted());
    }
    drop(clients);
    let mut client = Client::connect(&server.addr().to_string(), None).unwrap();
    assert_eq!(client.next_records().unwrap(), Some(vec![Record { ns: 1, event: Event::TriggerStart }]));
}

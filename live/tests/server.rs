//! The server over real sockets, with a scripted client. No bound on time: counts only.
#![forbid(unsafe_code)]

use metronome_live::{
    Begin, Client, ClientError, Event, Hub, Options, Record, ServeError, Server, serve_file,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const TOKEN: &str = "0123456789abcdefghij";

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bookmark(i: u64) -> Record {
    Record { ns: i, event: Event::Bookmark { text: format!("bookmark {i}") } }
}

fn begin() -> Record {
    Record { ns: 0, event: Event::Begin(Begin { version: 1, source: "test".into(), ..Begin::default() }) }
}

/// Sends a request as it is; the whole answer, which ends with the connection.
fn ask(addr: SocketAddr, request: &str) -> String {
    let mut s = TcpStream::connect(addr).unwrap();
    s.write_all(request.as_bytes()).unwrap();
    let mut out = String::new();
    s.read_to_string(&mut out).unwrap();
    out
}

fn get(addr: SocketAddr, path: &str, headers: &str) -> String {
    ask(addr, &format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

#[test]
fn only_addresses_are_hosts_and_other_sites_are_refused() {
    let server = Server::of_hub(Hub::new(1 << 20), loopback()).unwrap();
    let (addr, host) = (server.addr(), format!("Host: {}\r\n", server.addr()));
    let page = get(addr, "/", &host);
    assert_eq!(status(&page), 200);
    let head = page.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    for line in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert!(!head.contains("access-control-allow"), "{head}");
    assert!(page.ends_with("</html>\n"), "the whole page");
    assert_eq!(status(&get(addr, "/", "Host: localhost\r\n")), 200);
    for (headers, path) in [
        ("Host: evil.example\r\n".to_owned(), "/"),
        (format!("Host: evil.example:{}\r\n", addr.port()), "/events"),
        (String::new(), "/"),
        (format!("{host}Origin: http://evil.example\r\n"), "/events"),
        (format!("{host}Origin: null\r\n"), "/events"),
        (format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n"), "/events"),
    ] {
        let answer = get(addr, path, &headers);
        assert!([400, 403].contains(&status(&answer)), "{headers}{answer}");
    }
    // A link from elsewhere may be followed.
    let link = format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n");
    assert_eq!(status(&get(addr, "/", &link)), 200);
    assert_eq!(status(&get(addr, "/other", &host)), 404);
    let post =
        ask(addr, &format!("POST /events HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(status(&post), 405);
    assert_eq!(server.url(), format!("http://{addr}/"));
}

#[test]
fn tokens_are_asked_for_and_compared() {
    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = |options: Options| Server::of_hub(Hub::new(1 << 20), options).unwrap_err();
    assert!(matches!(refused(Options::at(anywhere)), ServeError::TokenNeeded { addr } if addr == anywhere));
    for bad in ["", "short", "with a blank in it", &"x".repeat(300), "0123456789abcdef&=/"] {
        assert!(matches!(refused(Options::at(loopback()).token(bad)), ServeError::BadToken), "{bad}");
    }
    let options = Options::at(anywhere).token(TOKEN);
    assert!(!format!("{options:?}").contains(TOKEN), "not in messages");
    let hub = Hub::new(1 << 20);
    hub.publish(&[begin()]);
    let server = Server::of_hub(hub, options).unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], server.addr().port()));
    let host = format!("Host: {addr}\r\n");
    for path in ["/", "/events", "/?token=", "/events?token=0123456789abcdefghiX", "/?other=1"] {
        assert_eq!(status(&get(addr, path, &host)), 401, "{path}");
    }
    let longer = format!("{host}Authorization: Bearer {TOKEN}0\r\n");
    assert_eq!(status(&get(addr, "/", &longer)), 401);
    let right = format!("{host}Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(status(&get(addr, "/", &right)), 200);
    assert_eq!(status(&get(addr, &format!("/?x=1&token={TOKEN}"), &host)), 200);
    assert!(server.url().ends_with(&format!("?token={TOKEN}")));

    let mut client = Client::connect(&addr.to_string(), Some(TOKEN)).unwrap();
    assert_eq!(client.next_records().unwrap(), Some(vec![begin()]));
    match Client::connect(&addr.to_string(), Some("wrong")) {
        Err(ClientError::Refused { status, text }) => {
            assert!(status.contains("401") && text.contains("wrong"), "{status} {text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_see_the_past_and_what_follows_once_and_in_order() {
    let hub = Hub::new(1 << 20);
    hub.publish(&[begin()]);
    hub.publish(&(0..10).map(bookmark).collect::<Vec<_>>());
    let server = Server::of_hub(Arc::clone(&hub), loopback()).unwrap();
    let mut clients: Vec<Client> =
        (0..3).map(|_| Client::connect(&server.addr().to_string(), None).unwrap()).collect();
    for i in 10..200 {
        hub.publish(&[bookmark(i)]);
    }
    let want: Vec<Record> = std::iter::once(begin()).chain((0..200).map(bookmark)).collect();
    for client in &mut clients {
        let mut got = Vec::new();
        while got.len() < want.len() {
            got.extend(client.next_records().unwrap().expect("the server is there"));
        }
        assert_eq!(got, want);
    }
    // One too many.
    let more: Vec<_> = (3..16).map(|_| Client::connect(&server.addr().to_string(), None).unwrap()).collect();
    match Client::connect(&server.addr().to_string(), None) {
        Err(ClientError::Refused { status, .. }) => assert!(status.contains("503"), "{status}"),
        other => panic!("{other:?}"),
    }
    drop(more);
    drop(server);
    assert!(matches!(clients[0].next_records(), Ok(None) | Err(ClientError::Io(_))), "the server has gone");
}

#[test]
fn a_browser_that_lost_its_connection_goes_on_where_it_was() {
    let hub = Hub::new(1 << 20);
    for i in 0..5 {
        hub.publish(&[bookmark(i)]);
    }
    let server = Server::of_hub(Arc::clone(&hub), loopback()).unwrap();
    let read = |last: &str, until: &str| {
        let mut s = TcpStream::connect(server.addr()).unwrap();
        let request = format!("GET /events HTTP/1.1\r\nHost: {}\r\n{last}\r\n", server.addr());
        s.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let mut part = [0; 1024];
        while !text.contains(until) {
            let n = s.read(&mut part).unwrap();
            assert!(n > 0, "{text}");
            text.push_str(std::str::from_utf8(&part[..n]).unwrap());
        }
        text
    };
    let first = read("", "bookmark 4\"}]\n\n");
    let ids: Vec<&str> = first.lines().filter_map(|l| l.strip_prefix("id: ")).collect();
    assert_eq!(ids.len(), 5, "{first}");
    let again = read(&format!("Last-Event-ID: {}\r\n", ids[2]), "bookmark 4\"}]\n\n");
    assert!(!again.contains("bookmark 2\"") && again.contains("bookmark 3\""), "{again}");
    // An id of another server counts for nothing.
    let other = format!("Last-Event-ID: 1-{}\r\n", ids[2].split('-').nth(1).unwrap());
    assert!(read(&other, "bookmark 4\"}]\n\n").contains("bookmark 0\""));
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_and_learns_what_it_missed() {
    // The past is short, so that nothing of what is missed comes from there.
    let hub = Hub::new(1 << 12);
    hub.publish(&[begin()]);
    let server = Server::of_hub(Arc::clone(&hub), loopback()).unwrap();
    let mut slow = Client::connect(&server.addr().to_string(), None).unwrap();
    assert_eq!(slow.next_records().unwrap(), Some(vec![begin()]));
    // More than the buffers of two sockets, the server and the channel hold together: 40 MB.
    let text = "x".repeat(8000);
    let total = 5000u64;
    for ns in 0..total {
        // Returns although nobody reads.
        hub.publish(&[Record { ns, event: Event::Note { text: text.clone() } }]);
    }
    assert_eq!(hub.published(), total + 1);
    hub.publish(&[Record { ns: total, event: Event::End }]);
    let (mut received, mut lost, mut last) = (0u64, 0u64, None);
    'all: while let Some(records) = slow.next_records().unwrap() {
        for r in records {
            match r.event {
                Event::Note { .. } => {
                    // INV-LIVE-LOSS: each number is the next one, after what was lost.
                    assert_eq!(r.ns, received + lost);
                    received += 1;
                }
                Event::Lost { count, place } => {
                    assert_eq!(place, "client");
                    lost += count;
                }
                Event::End => {
                    last = Some(r.ns);
                    break 'all;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((received + lost, last), (total, Some(total)));
    assert!(lost > 0, "all of 40 MB were buffered somewhere");
    // One that comes late learns what is no longer kept.
    let mut late = Client::connect(&server.addr().to_string(), None).unwrap();
    assert_eq!(late.next_records().unwrap(), Some(vec![begin()]));
    let first = late.next_records().unwrap().unwrap();
    assert!(
        matches!(&first[..], [Record { event: Event::Lost { count, place }, .. }] if *count >= total - 20 && place == "history"),
        "{first:?}"
    );
}

#[test]
fn a_recording_is_replayed_to_each_client_from_its_beginning() {
    let path = std::env::temp_dir().join(format!("metronome-replay-{}.jsonl", std::process::id()));
    let want: Vec<Record> = std::iter::once(begin()).chain((1..3000).map(bookmark)).collect();
    let lines: String = want.iter().map(|r| r.json() + "\n").collect();
    std::fs::write(&path, lines).unwrap();
    let server = serve_file(&path, loopback()).unwrap();
    for _ in 0..2 {
        let mut client = Client::connect(&server.addr().to_string(), None).unwrap();
        let mut got = Vec::new();
        while got.last().is_none_or(|r: &Record| r.event != Event::BreakOff) {
            got.extend(client.next_records().unwrap().unwrap());
        }
        // It has no end, and does not look as if it had.
        got.pop();
        assert_eq!(got, want);
    }
    std::fs::write(&path, "neither this nor that").unwrap();
    let error = serve_file(&path, loopback()).unwrap_err().to_string();
    assert!(error.contains("no recording, no Tuning Fork trace and no verbose GC log"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(serve_file(&path, loopback()), Err(ServeError::Input(_))));
}

#[test]
fn what_was_published_before_the_end_still_arrives() {
    for _ in 0..20 {
        let hub = Hub::new(1 << 20);
        hub.publish(&[begin()]);
        let server = Server::of_hub(Arc::clone(&hub), loopback()).unwrap();
        let mut client = Client::connect(&server.addr().to_string(), None).unwrap();
        assert_eq!(client.next_records().unwrap(), Some(vec![begin()]));
        hub.publish(&[bookmark(1)]);
        hub.publish(&[Record { ns: 2, event: Event::End }]);
        drop(server);
        assert_eq!(client.next_records().unwrap(), Some(vec![bookmark(1)]));
        assert_eq!(client.next_records().unwrap(), Some(vec![Record { ns: 2, event: Event::End }]));
        assert_eq!(client.next_records().unwrap(), None);
    }
}

/// Before any request was read, 64 of these kept everybody out.
#[test]
fn those_who_say_nothing_keep_nobody_out() {
    let hub = Hub::new(1 << 20);
    hub.publish(&[begin()]);
    let server = Server::of_hub(hub, Options::at(loopback()).token(TOKEN)).unwrap();
    let addr = server.addr();
    let mut idle = Vec::new();
    for i in 0..200 {
        let mut s = TcpStream::connect(addr).unwrap();
        if i % 2 == 0 {
            s.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
        }
        idle.push(s);
    }
    for _ in 0..20 {
        let mut client = Client::connect(&addr.to_string(), Some(TOKEN)).unwrap();
        assert_eq!(client.next_records().unwrap(), Some(vec![begin()]));
    }
}

/// A client that may see the page cannot keep its connection to say more.
#[test]
fn a_connection_is_for_one_request() {
    let server = Server::of_hub(Hub::new(1 << 20), loopback()).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr());
    // Ends with the connection, though the request does not ask for that.
    assert_eq!(status(&ask(server.addr(), &request)), 200);
}

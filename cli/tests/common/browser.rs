//! A page in a Chromium without a display, where there is one.

use super::Scratch;
use std::process::{Command, Stdio};

/// Opens a page of 1280 by 720 with `actions`, a script, put before its end: it puts what it has to tell into an element
/// `told`. The page's errors are in `errors`. `None` where there is no Chromium, which is said.
pub(crate) fn told(dir: &Scratch, page: &str, actions: &str) -> Option<String> {
    let first = "<script>const errors = []; window.onerror = (m) => errors.push(String(m));</script></head>";
    let driven = page.replacen("</head>", first, 1).replacen("</body>", &format!("{actions}</body>"), 1);
    let file = dir.write("page.html", driven);
    let profile = format!("--user-data-dir={}", dir.path("profile"));
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(|name| {
        let mut command = Command::new(name);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1280,720",
            "--virtual-time-budget=5000",
            &profile,
        ]);
        command.args(["--dump-dom", &format!("file://{file}")]).stdin(Stdio::null()).output().ok()
    });
    let dom = browser
        .filter(|out| out.status.success())
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let told =
        dom.as_deref().and_then(|d| Some(d.split_once("<pre id=\"told\">")?.1.split_once("</pre>")?.0));
    let Some(told) = told else {
        // A browser that starts and runs the page but not its script is no reason to skip.
        assert!(
            !dom.is_some_and(|d| d.contains("id=\"verdict\"")),
            "the page's script did not come to its end"
        );
        println!("skipped: no Chromium that starts");
        return None;
    };
    Some(told.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

//! The page: one HTML file without any reference to others.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use std::sync::LazyLock;

/// The scripts, in the order of their uses.
const SCRIPTS: &[&str] = &[
    include_str!("../../page/store.js"),
    include_str!("../../page/figures.js"),
    include_str!("../../page/draw.js"),
    include_str!("../../page/charts.js"),
    include_str!("../../page/scope.js"),
    include_str!("../../page/tables.js"),
    include_str!("../../page/clock.js"),
    include_str!("../../page/main.js"),
];

static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("../../page/page.html")
        .replace("/* STYLE */", include_str!("../../page/style.css"))
        .replace("/* SCRIPT */", &SCRIPTS.join("\n"))
});

/// Nothing from elsewhere, and no talking to elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
     img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn page() -> impl IntoResponse {
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (StatusCode::OK, headers, PAGE.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        assert!(!PAGE.contains("/* STYLE */") && !PAGE.contains("/* SCRIPT */"));
        let scripts = PAGE.matches("<script").count();
        assert_eq!((scripts, PAGE.matches("</script").count()), (1, 1));
        for outside in
            ["http://", "https://", "src=", "@import", "url(", "innerHTML", "document.write", "eval("]
        {
            let uses: Vec<&str> = PAGE.lines().filter(|l| l.contains(outside)).collect();
            // The name space of SVG is a name, not an address.
            let uses: Vec<&&str> = uses.iter().filter(|l| !l.contains("www.w3.org/2000/svg")).collect();
            assert_eq!(uses, [&""; 0], "{outside}");
        }
        assert!(PAGE.len() < 200_000, "{}", PAGE.len());
    }
}

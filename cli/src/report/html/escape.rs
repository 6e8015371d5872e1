//! Text of logs in a page: nothing of it may become markup, script, or a sign that hides what stands beside it.

use serde_json::Value;

/// Characters of a text from a log that are shown at most.
pub(super) const LONGEST: usize = 600;

/// Text for an element or a quoted attribute of HTML and XML.
pub(super) fn text(from: &str) -> String {
    let mut out = String::with_capacity(from.len());
    for c in from.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// [`text`] of the first [`LONGEST`] characters.
pub(super) fn clipped(from: &str) -> String {
    text(&clip(from, LONGEST))
}

/// The first so many characters, with a sign if there are more.
pub(super) fn clip(from: &str, most: usize) -> String {
    match from.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &from[..end]),
        None => from.to_owned(),
    }
}

/// Control characters, signs that turn the direction of writing, and what XML does not allow.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// JSON that can stand in a `script` element of HTML and of XML.
pub(super) fn json(value: &Value) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        // Outside of strings JSON has none of these, and inside an escape means the same.
        match c {
            '<' | '>' | '&' | '\'' | '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if is_hidden(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Cuts all strings in a value, names of members too.
pub(super) fn clip_all(value: &mut Value) {
    match value {
        Value::String(s) if s.len() > LONGEST => *s = clip(s, LONGEST),
        Value::Array(all) => all.iter_mut().for_each(clip_all),
        Value::Object(all) => {
            all.values_mut().for_each(clip_all);
            if all.keys().any(|k| k.len() > LONGEST) {
                *all = std::mem::take(all).into_iter().map(|(k, v)| (clip(&k, LONGEST), v)).collect();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><!--]]>\"'&\u{202e}\0\u{7}\u{2028}\u{ffff}\u{85}";

    #[test]
    fn what_is_escaped_reads_back_as_text_and_json() {
        let page = format!("<a title=\"{0}\">{0}</a>", text(HOSTILE));
        let page = roxmltree::Document::parse(&page).unwrap();
        let shown = "</script><!--]]>\"'&\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(page.root_element().text(), Some(shown));
        assert_eq!(page.root_element().attribute("title"), Some(shown));
        let value = serde_json::json!({ HOSTILE: [HOSTILE] });
        let page = json(&value);
        assert!(!page.contains(['<', '>', '&', '\'', '\u{2028}', '\u{ffff}', '\u{85}']), "{page}");
        assert_eq!(serde_json::from_str::<Value>(&page).unwrap(), value);
    }

    #[test]
    fn strings_are_cut_between_characters() {
        assert_eq!((clip("äöü", 3), clip("äöü", 2)), ("äöü".into(), "äö…".into()));
        let mut v = serde_json::json!({ "a": ["ä".repeat(9_000)], "b".repeat(9_000): 1 });
        clip_all(&mut v);
        assert!(v.to_string().len() < 4 * LONGEST, "{v}");
    }
}

//! A picture on the page: its words, its legend, its drawing, and the means to save it.

use super::escape;
use super::plot::{Ink, Plot};

/// A picture, or a sentence why there is none.
pub(super) enum Block {
    Picture(Picture),
    /// Title and what is missing.
    Lacking(&'static str, String),
}

pub(super) struct Picture {
    /// A name for files and links, of letters and hyphens.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What one sees, for people and for those who cannot see it; plain text.
    pub(super) note: String,
    pub(super) plot: Plot,
    /// What is drawn with what; plain text.
    pub(super) legend: Vec<(Ink, String)>,
}

/// The HTML of a block; `group` tells several of the same kind apart.
pub(super) fn html(block: &Block, group: &str) -> Result<String, String> {
    let p = match block {
        Block::Picture(p) => p,
        Block::Lacking(title, why) => {
            return Ok(format!(
                "<figure class=\"lacking\"><h3>{}</h3><p>{}</p></figure>",
                escape::text(title),
                escape::text(why)
            ));
        }
    };
    let id = format!("{group}-{}", p.name);
    let drawn = p.plot.draw(&id)?;
    let legend: String = p.legend.iter().map(|(ink, words)| swatch(*ink, words)).collect();
    let time = if p.plot.time {
        format!(" data-from=\"{}\" data-to=\"{}\" data-group=\"{group}\"", p.plot.x.from, p.plot.x.to)
    } else {
        String::new()
    };
    Ok(format!(
        "<figure class=\"picture\" id=\"{id}\"{time} data-left=\"{}\" data-right=\"{}\" data-top=\"{}\" \
         data-bottom=\"{}\"><h3>{}</h3><p class=\"note\">{}</p><p class=\"legend\">{legend}</p>\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" tabindex=\"0\" \
         aria-label=\"{}\">{}</svg>\
         <p class=\"tools\"><span class=\"reading\" aria-live=\"polite\"></span>\
         <button type=\"button\" data-save=\"svg\">Save SVG</button>\
         <button type=\"button\" data-save=\"png\">Save PNG</button></p></figure>",
        drawn.x.start,
        drawn.x.end,
        drawn.y.start,
        drawn.y.end,
        escape::text(p.title),
        escape::text(&p.note),
        drawn.size.0,
        drawn.size.1,
        escape::text(&format!("{}. {}", p.title, p.note)),
        drawn.inside,
    ))
}

fn swatch(ink: Ink, words: &str) -> String {
    let kind = match ink {
        Ink::Target | Ink::Limit => "dashed",
        Ink::Cycle => "area",
        _ => "line",
    };
    format!(
        "<span><i class=\"{kind}\" style=\"--swatch:var({})\"></i>{}</span>",
        ink.variable(),
        escape::clipped(words)
    )
}

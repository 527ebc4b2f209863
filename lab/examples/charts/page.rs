//! The page of benchmarks: each chart with its figures' commit, machine and command.

use std::fmt::Write as _;

use lsm_sieve_lab::chart::style_sheet;

use crate::record::Origin;

const PAGE: &str = include_str!("page.html");

pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) svg: String,
    /// What the chart shows and how to read it.
    pub(crate) about: String,
    /// Each measurement's name, and where it comes from.
    pub(crate) origins: Vec<(String, Origin)>,
}

pub(crate) fn page(sections: &[Section]) -> String {
    let sections: String = sections.iter().map(section).collect();
    PAGE.replace("{{style}}", &style_sheet())
        .replace("{{sections}}", sections.trim_end())
}

fn section(of: &Section) -> String {
    let origins = of
        .origins
        .iter()
        .fold(String::new(), |mut rows, (series, origin)| {
            // Writing to a string cannot fail.
            let _ = writeln!(
                rows,
                "<dt>{}</dt><dd>{}, commit {}; {}<br/><code>{}</code></dd>",
                escaped(series),
                escaped(&origin.date),
                escaped(&origin.commit),
                escaped(&origin.machine),
                escaped(&origin.command)
            );
            rows
        });
    format!(
        "<section>\n<h2>{}</h2>\n<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n\
         <details><summary>Machine, commit, command</summary>\n<dl>\n{origins}</dl>\n</details>\n\
         </section>\n",
        escaped(of.title),
        of.svg,
        escaped(&of.about)
    )
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

//! Names from files, made safe to print: terminals obey control characters, and a line end forges a line.

use std::borrow::Cow;
use std::path::Path;

/// `text` with control characters, line separators and marks that turn the direction of writing as escapes: `\n`, `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_obeyed(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// A path as messages show it.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_escaped_and_nothing_else() {
        assert!(matches!(printable("layers.0.wé \\ \"x\""), Cow::Borrowed(_)));
        assert_eq!(printable("a\nb\r\t\u{1b}[2K\u{9b}\u{7f}"), r"a\nb\r\t\u{1b}[2K\u{9b}\u{7f}");
        assert_eq!(printable("a\u{2028}b\u{202e}c"), r"a\u{2028}b\u{202e}c");
    }
}

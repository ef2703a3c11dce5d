//! Refuses HOCON texts that the parser would take while losing or twisting a part of them:
//!
//! - a `}` that closes nothing, behind which everything is dropped;
//! - a key without a value, which swallows the next line: `a =` before `b = 1` gives `a` the text "b = 1";
//! - a second `=` in one value, which is a forgotten comma, quote or line break.
//!
//! It walks the parser's own tokens, so that both agree about what is a text or a comment. On the way it notes what
//! else the loading needs to know of a file: what it includes and what it substitutes.

use hocon::{Token, TokenKind};

use super::error::ConfigError;

/// What the tokens of one text tell.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Its `include` statements.
    pub(super) includes: Vec<Include>,
    /// Its `${substitutions}`.
    pub(super) substitutions: Vec<Substitution>,
}

/// An `include` of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Include {
    /// The path as it is written.
    pub(super) path: String,
    /// Whether it stands in `file(..)`, which counts from the working directory.
    pub(super) from_working_directory: bool,
    /// From 1.
    pub(super) line: usize,
}

/// A `${path}` or `${?path}`.
#[derive(Debug, PartialEq)]
pub(super) struct Substitution {
    /// Its path, segments joined by dots.
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: usize,
}

/// Scans a text.
///
/// # Errors
/// [`ConfigError::Syntax`], also for what the parser's tokenizer refuses.
pub(super) fn scan(text: &str, origin: &str) -> Result<Scan, ConfigError> {
    let refuse = |line, column, problem: &str| {
        Err(ConfigError::Syntax { origin: origin.to_owned(), line, column, problem: problem.to_owned() })
    };
    let tokens = match hocon::tokenize(text) {
        Ok(tokens) => tokens,
        Err(error) => return refuse(error.line, error.col, &error.message),
    };
    let mut scan = Scan::default();
    let mut open_braces = 0usize;
    let mut in_value = false;
    for (index, token) in tokens.iter().enumerate() {
        let rest = tokens.get(index + 1..).unwrap_or_default();
        match token.kind {
            TokenKind::LBrace => open_braces += 1,
            TokenKind::RBrace if open_braces == 0 => {
                let problem = "this } closes nothing, and everything behind it would be lost: remove it";
                return refuse(token.line, token.col, problem);
            }
            TokenKind::RBrace => open_braces -= 1,
            TokenKind::Equals | TokenKind::PlusEquals if in_value => {
                let problem =
                    "a second = in one value: put the value in quotes, or a line break before the next key";
                return refuse(token.line, token.col, problem);
            }
            TokenKind::Colon if in_value => {}
            TokenKind::Equals | TokenKind::PlusEquals | TokenKind::Colon if !has_value(rest) => {
                let problem = "a key without a value would take the next line as its value: write the value on this \
                               line, or null, or remove the key";
                return refuse(token.line, token.col, problem);
            }
            TokenKind::Unquoted if token.value == "include" && starts_field(tokens.get(..index)) => {
                scan.includes.extend(include(rest));
            }
            TokenKind::Substitution => scan.substitutions.extend(substitution(token)),
            _ => {}
        }
        in_value = match token.kind {
            TokenKind::Equals | TokenKind::PlusEquals | TokenKind::Colon => true,
            TokenKind::Newline | TokenKind::Comma => false,
            TokenKind::LBrace | TokenKind::RBrace | TokenKind::LBracket | TokenKind::RBracket => false,
            _ => in_value,
        };
    }
    Ok(scan)
}

/// Whether a value begins behind a separator: on its line, or with a brace or bracket on a later one.
fn has_value(rest: &[Token]) -> bool {
    let line_ends = rest.first().is_none_or(|next| matches!(next.kind, TokenKind::Newline | TokenKind::Eof));
    let next = rest.iter().find(|token| token.kind != TokenKind::Newline);
    !line_ends || next.is_some_and(|next| matches!(next.kind, TokenKind::LBrace | TokenKind::LBracket))
}

fn starts_field(before: Option<&[Token]>) -> bool {
    before
        .unwrap_or_default()
        .last()
        .is_none_or(|last| matches!(last.kind, TokenKind::Newline | TokenKind::Comma | TokenKind::LBrace))
}

/// `"x"`, `file("x")`, `required("x")` or `required(file("x"))`; other forms name no file.
fn include(rest: &[Token]) -> Option<Include> {
    let (form, path) = match rest {
        [path, ..] if path.kind == TokenKind::QuotedString => ("", path),
        [form, path, ..] if path.kind == TokenKind::QuotedString => (form.value.as_str(), path),
        _ => return None,
    };
    let form: String = form.chars().filter(|character| !character.is_whitespace()).collect();
    let from_working_directory = match form.as_str() {
        "" | "required(" => false,
        "file(" | "required(file(" => true,
        _ => return None,
    };
    Some(Include { path: path.value.clone(), from_working_directory, line: path.line })
}

fn substitution(token: &Token) -> Option<Substitution> {
    let segments = &token.subst.as_ref()?.segments;
    let path = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(".");
    Some(Substitution { path, line: token.line, column: token.col })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_at(text: &str) -> Option<(usize, usize)> {
        match scan(text, "application.conf") {
            Err(ConfigError::Syntax { origin, line, column, .. }) => {
                assert_eq!(origin, "application.conf");
                Some((line, column))
            }
            other => {
                assert!(other.is_ok(), "{other:?}");
                None
            }
        }
    }

    #[test]
    fn a_brace_that_closes_nothing_is_refused() {
        assert_eq!(refused_at("a = 1\n}\nb = 2"), Some((2, 1)));
        assert_eq!(refused_at("a { b = 1 } }"), Some((1, 13)));
        assert_eq!(refused_at("a { b = 1 }\r\n  }\r\n"), Some((2, 3)));
    }

    #[test]
    fn braces_in_texts_comments_and_substitutions_are_none() {
        for text in [
            "a = \"}\"",
            "a = 1 # }\n// }\nb = 2",
            "a = \"\"\"}\"}\"\"\"",
            "a = ${?b}",
            "a = \"\\\"}\"",
            "{ a = 1 }\n",
        ] {
            assert_eq!(refused_at(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_key_without_a_value_is_refused() {
        assert_eq!(refused_at("a =\nb = 2"), Some((1, 3)));
        assert_eq!(refused_at("x = 1\na :  # soon\n\nb = 2"), Some((2, 3)));
        assert_eq!(refused_at("a +=\r\nb"), Some((1, 3)));
        assert_eq!(refused_at("a { b = "), Some((1, 7)));
    }

    #[test]
    fn a_section_or_list_may_begin_on_the_next_line() {
        for text in ["a =\n{ b = 1 }", "a = # why\n\n[1]", "a\n{ b = 1 }"] {
            assert_eq!(refused_at(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_second_equals_sign_in_a_value_is_refused() {
        assert_eq!(refused_at("a = 5 b = 6"), Some((1, 9)));
        for text in
            ["a = 5, b = 6", "a { b = 1, c { d = 2 } e = 3 }", "t = 2026-05-01T00:00:00Z", "a = [{ b = 1 }]"]
        {
            assert_eq!(refused_at(text), None, "{text:?}");
        }
    }

    #[test]
    fn includes_and_substitutions_are_found() {
        let text = "include \"a\"\nb { include required(file(\"c d.conf\")) }\ninclude url(\"http://x\")\n\
                    e = ${?F}${g.h}\n\
                    i = include \"j\"";
        let scan = scan(text, "").unwrap();
        let include = |path: &str, from_working_directory, line| Include {
            path: path.to_owned(),
            from_working_directory,
            line,
        };
        assert_eq!(scan.includes, [include("a", false, 1), include("c d.conf", true, 2)]);
        let paths: Vec<_> =
            scan.substitutions.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(paths, [("F", 4), ("g.h", 4)]);
    }
}

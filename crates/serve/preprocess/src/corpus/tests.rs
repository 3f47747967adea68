//! The articles are what conversations need.

use super::*;
use crate::tokenizer::{Specials, Tokenizer};

#[test]
fn every_article_has_its_length_and_shape() {
    let tokenizer = Tokenizer::embedded();
    let (mut titles, mut unfit) = (Vec::new(), Vec::<String>::new());
    for article in articles() {
        let tokens = tokenizer
            .encode(article.text, Specials::Plain)
            .unwrap()
            .len();
        if !(3_500..=4_000).contains(&tokens) {
            unfit.push(format!("{}: {tokens} tokens", article.title));
        }
        let sections = article
            .text
            .lines()
            .filter(|line| line.starts_with("## "))
            .count();
        assert!(sections >= 7, "{}: {sections} sections", article.title);
        assert!(article.paragraphs.len() >= sections, "{}", article.title);
        assert!(!article.title.is_empty());
        titles.push(article.title);
    }
    assert!(unfit.is_empty(), "{unfit:#?}");
    assert_eq!(titles.len(), 40);
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), 40, "titles differ");
}

#[test]
fn paragraphs_are_running_text() {
    for article in articles() {
        for paragraph in &article.paragraphs {
            assert!(
                !paragraph.contains("\n\n") && !paragraph.starts_with('#'),
                "{paragraph}"
            );
            assert!(article.text.contains(paragraph));
        }
    }
}

//! Keeps special tokens in users' messages from being parsed as the template's.
//!
//! A template marks turns by special tokens, and a tokenizer knows those by their names in the
//! rendered text, whoever wrote them: a message that contains them could end itself and
//! continue as the system. So before rendering, the first character of each such name is
//! exchanged for a stand-in that nobody uses, and afterwards, when the text has been parted at
//! the names that are left, which are the template's, it is put back. In between the template
//! may trim, cut and join as it pleases: a stand-in is one character like the one it stands
//! for, and begins no name.
//!
//! The beginning of a name at the end of a message counts as one, since what follows could
//! complete it. A message without such names is not touched, and a prompt of such messages
//! takes the same way as ever.

use std::borrow::Cow;

use crate::error::PrepareError;
use crate::tokenizer::SpecialTokens;

/// Where stand-ins come from: a plane of private use.
const STAND_INS: std::ops::RangeInclusive<u32> = 0xF_0000..=0xF_FFFD;

/// Stand-ins for one request.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    names: &'a SpecialTokens,
    /// The stand-in of each possible first character; they are consecutive.
    stand_ins: Vec<(char, char)>,
}

impl<'a> Guard<'a> {
    /// A guard for these texts, if they need one.
    pub(crate) fn new<'t>(
        names: &'a SpecialTokens,
        texts: impl Iterator<Item = &'t str> + Clone,
    ) -> Result<Option<Self>, PrepareError> {
        let needed = texts
            .clone()
            .any(|text| names.beginnings(text).next().is_some());
        if !needed {
            return Ok(None);
        }
        let firsts = names.first_characters();
        let unused = unused(texts, firsts.len()).ok_or_else(|| PrepareError::Encode {
            message: "it uses all characters of plane 15".to_owned(),
        })?;
        Ok(Some(Self {
            names,
            stand_ins: firsts.into_iter().zip(unused).collect(),
        }))
    }

    /// `text` as a template may have it.
    pub(crate) fn protect<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut protected = String::new();
        let mut done = 0;
        for at in self.names.beginnings(text) {
            let first = text[at..].chars().next();
            let stand_in = self
                .stand_ins
                .iter()
                .find(|(known, _)| Some(*known) == first);
            if let Some((first, stand_in)) = stand_in {
                protected.push_str(&text[done..at]);
                protected.push(*stand_in);
                done = at + first.len_utf8();
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        protected.push_str(&text[done..]);
        Cow::Owned(protected)
    }

    /// What the user wrote, out of what was rendered.
    pub(crate) fn restore<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let original = |character| {
            let mut stand_ins = self.stand_ins.iter();
            let known = stand_ins.find(|(_, stand_in)| *stand_in == character);
            known.map(|(first, _)| *first)
        };
        if !text.chars().any(|character| original(character).is_some()) {
            return Cow::Borrowed(text);
        }
        let restored = text
            .chars()
            .map(|character| original(character).unwrap_or(character));
        Cow::Owned(restored.collect())
    }
}

/// So many consecutive characters that occur in none of the texts.
fn unused<'t>(
    texts: impl Iterator<Item = &'t str>,
    count: usize,
) -> Option<impl Iterator<Item = char>> {
    let mut used = vec![false; STAND_INS.count()];
    for character in texts.flat_map(str::chars) {
        let place = u32::from(character).checked_sub(*STAND_INS.start());
        if let Some(used) = place.and_then(|place| used.get_mut(place as usize)) {
            *used = true;
        }
    }
    let start = used.windows(count).position(|run| !run.contains(&true))?;
    let start = *STAND_INS.start() + u32::try_from(start).ok()?;
    Some((start..).map_while(char::from_u32).take(count))
}

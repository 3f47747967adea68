//! Shapes of steps, and what is uploaded.

use super::*;
use crate::ops::host::{HostBuffer, HostOps};

fn row<'a>(tokens: &'a [u32], start: usize, blocks: &'a [u32], outputs: usize) -> StagedRow<'a> {
    StagedRow {
        tokens,
        drafts: &[],
        start,
        blocks,
        outputs,
        draws: &[],
    }
}

fn indices(ops: &mut HostOps, buffer: &HostBuffer, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * count];
    ops.read(buffer, 0, &mut bytes).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(u32::from_le_bytes)
        .collect()
}

#[test]
fn steps_are_filled_up_to_few_numbers_of_rows() {
    let padded: Vec<_> = [1, 2, 3, 5, 9, 17, 25, 33, 49, 64, 65, 97]
        .map(padded)
        .into();
    assert_eq!(padded, [1, 2, 4, 8, 16, 24, 32, 48, 64, 64, 96, 128]);
    for rows in 1..300 {
        assert!(super::padded(rows) >= rows);
    }
}

#[test]
fn a_decoding_step_is_recorded_with_padding() {
    let mut staging = Staging::default();
    let rows = [
        row(&[7], 300, &[4; 10], 1),
        row(&[8], 0, &[5], 1),
        row(&[9], 31, &[6], 1),
    ];
    staging.fill(&rows, 1000);
    let shape = *staging.shape();
    assert_eq!(
        (shape.rows, shape.outputs, shape.decodes, shape.longest),
        (4, 4, 4, 512)
    );
    assert!(shape.is_recorded && staging.spans().is_empty());
    let mut ops = HostOps::new(1 << 20);
    let upload = ops.allocate(upload_bytes(8, 8, 4, 1000)).unwrap();
    let inputs = staging.upload(&mut ops, &upload).unwrap();
    assert!(inputs.wanted.is_none());
    assert_eq!(indices(&mut ops, &inputs.tokens, 4), [7, 8, 9, 0]);
    assert_eq!(indices(&mut ops, &inputs.positions, 4), [300, 0, 31, 0]);
    assert_eq!(indices(&mut ops, &inputs.tables, 4), [0, 1, 2, PADDING]);
    let blocks = indices(&mut ops, &inputs.blocks, 4 * 16);
    assert_eq!(blocks[..11], [&[4; 10][..], &[PADDING]].concat());
    assert_eq!(blocks[16..18], [5, PADDING]);
    assert_eq!(blocks[48..], [PADDING; 16]);
    // As long contexts as the model has are not rounded further.
    staging.fill(&[row(&[7], 990, &[4; 31], 1)], 1000);
    assert_eq!(staging.shape().longest, 1024);
    staging.fill(&[row(&[7], 520, &[4; 31], 1)], 700);
    assert_eq!(staging.shape().longest, 704);
}

#[test]
fn single_rows_are_in_front_and_outputs_in_order() {
    let mut staging = Staging::default();
    let rows = [
        StagedRow {
            drafts: &[2, 3],
            ..row(&[1], 40, &[0, 1], 3)
        },
        row(&[4], 5, &[2], 1),
        row(&[5, 6, 7], 0, &[3], 0),
        row(&[8, 9], 32, &[3, 4], 1),
    ];
    staging.fill(&rows, 256);
    let shape = *staging.shape();
    assert_eq!((shape.rows, shape.outputs, shape.decodes), (9, 5, 1));
    assert!(!shape.is_recorded);
    let span = |first, count| Span { first, count };
    assert_eq!(staging.spans(), [span(1, 3), span(4, 3), span(7, 2)]);
    let firsts: Vec<_> = (0..4).map(|index| staging.first_output(index)).collect();
    assert_eq!(firsts, [0, 3, 4, 4]);
    let mut ops = HostOps::new(1 << 20);
    let upload = ops.allocate(upload_bytes(9, 5, 4, 256)).unwrap();
    let inputs = staging.upload(&mut ops, &upload).unwrap();
    assert_eq!(
        indices(&mut ops, &inputs.tokens, 9),
        [4, 1, 2, 3, 5, 6, 7, 8, 9]
    );
    assert_eq!(
        indices(&mut ops, &inputs.positions, 9),
        [5, 40, 41, 42, 0, 1, 2, 32, 33]
    );
    assert_eq!(
        indices(&mut ops, &inputs.tables, 9),
        [1, 0, 0, 0, 2, 2, 2, 3, 3]
    );
    let wanted = inputs.wanted.as_ref().unwrap();
    assert_eq!(indices(&mut ops, &wanted.rows, 5), [1, 2, 3, 0, 8]);
    assert_eq!(indices(&mut ops, &wanted.positions, 5), [40, 41, 42, 5, 33]);
    assert_eq!(indices(&mut ops, &wanted.tables, 5), [0, 0, 0, 1, 3]);
    let blocks = indices(&mut ops, &inputs.blocks, 8);
    assert_eq!(blocks, [0, 1, 2, PADDING, 3, PADDING, 3, 4]);
}

#[test]
fn draws_are_where_their_outputs_are() {
    let pick = |top_k| sampling::Pick {
        share: 0.25,
        scale: 2.0,
        min_p: 0.0,
        top_p: 0.5,
        top_k,
    };
    let draw = |top_k| DrawRow::new(pick(top_k), &[top_k]).unwrap();
    let (one, three) = ([draw(1)], [draw(2), draw(3), draw(4)]);
    let drafting = [
        row(&[4], 5, &[2], 1),
        StagedRow {
            drafts: &[2, 3],
            draws: &three,
            ..row(&[1], 40, &[0, 1], 3)
        },
        StagedRow {
            draws: &one,
            ..row(&[5], 5, &[3], 1)
        },
    ];
    let nothing = DrawRow::NOTHING;
    let mut staging = Staging::default();
    let mut ops = HostOps::new(1 << 20);
    for (rows, expected) in [
        (
            &drafting[..],
            &[nothing, three[0], three[1], three[2], one[0]][..],
        ),
        // Recorded, with a row of padding.
        (
            &[drafting[0], drafting[2], drafting[0]],
            &[nothing, one[0], nothing, nothing],
        ),
    ] {
        staging.fill(rows, 256);
        let upload = ops.allocate(upload_bytes(9, 5, 4, 256)).unwrap();
        staging.upload(&mut ops, &upload).unwrap();
        let draws = staging.draws(&ops, &upload);
        let mut words = Vec::new();
        expected.iter().for_each(|draw| draw.encode(&mut words));
        assert_eq!(staging.shape().outputs, expected.len());
        assert_eq!(indices(&mut ops, &draws, words.len()), words);
    }
}

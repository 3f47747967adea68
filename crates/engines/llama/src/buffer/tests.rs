//! Threads that write different parts of one buffer do not disturb each other, and nothing reaches
//! beyond it.

use super::{Buffer, Rows};

/// Sound only if no thread ever has a reference to more than its own part; Miri finds out.
#[test]
fn members_fill_columns_of_one_row_at_the_same_time() {
    let (rows, width, members) = (3, 32, 4);
    let buffer = Rows::new(rows, width).unwrap();
    let part = width / members;
    std::thread::scope(|scope| {
        for member in 0..members {
            let buffer = &buffer;
            scope.spawn(move || {
                let columns = member * part..(member + 1) * part;
                for row in 0..rows {
                    // SAFETY: nobody else has these columns.
                    let mine = unsafe { buffer.columns_mut(row, columns.clone()) };
                    mine.fill((row * 10 + member) as f32);
                    // SAFETY: as above.
                    let read = unsafe { buffer.columns(row, columns.clone()) };
                    assert!(read.iter().all(|number| *number == read[0]));
                }
            });
        }
    });
    for row in 0..rows {
        // SAFETY: all threads have ended.
        for (column, number) in unsafe { buffer.row(row) }.iter().enumerate() {
            assert_eq!(*number, (row * 10 + column / part) as f32);
        }
    }
}

#[test]
fn an_address_is_good_to_the_end_of_the_buffer() {
    let mut rows = Rows::new(2, 1).unwrap();
    rows.set(1, &[7.0; 32]);
    let from = rows.address(1);
    // SAFETY: the last row has 32 numbers, and nobody writes them.
    let last = unsafe { from.add(31).read() };
    assert_eq!(last, 7.0);
    assert_eq!(from, rows.address(0).wrapping_add(32));
}

#[test]
#[should_panic(expected = "a part within the buffer")]
fn a_row_that_is_not_there_is_refused() {
    let rows = Rows::new(2, 32).unwrap();
    // SAFETY: nobody else has the rows.
    unsafe { rows.row(2) };
}

#[test]
#[should_panic(expected = "columns of the row")]
fn columns_do_not_reach_into_the_next_row() {
    let rows = Rows::new(2, 32).unwrap();
    // SAFETY: nobody else has the rows.
    unsafe { rows.columns(0, 16..33) };
}

#[test]
fn memory_that_no_machine_has_is_an_error() {
    assert!(Buffer::zeros(usize::MAX).is_err());
    assert_eq!(Buffer::zeros(0).unwrap().len(), 0);
}

//! How memory is divided, and what is refused.

use super::*;

const NEEDS: Needs = Needs {
    weights: 100 << 20,
    workspace: 10 << 20,
    block: 1 << 20,
    context: 256,
};

fn memory(megabytes: usize, workers: usize, cache: Option<usize>) -> Memory {
    Memory {
        free: megabytes << 20,
        reserve: 5 << 20,
        workers,
        cache: cache.map(|megabytes| megabytes << 20),
    }
}

#[track_caller]
fn check(memory: Memory, expected: Result<usize, &str>) {
    let found = NEEDS.blocks(memory).map_err(|why| why.to_string());
    assert_eq!(found, expected.map_err(str::to_owned));
}

#[test]
fn caches_have_equal_parts_of_what_is_left() {
    check(memory(165, 1, None), Ok(50));
    check(memory(165, 2, None), Ok(20));
    check(memory(164, 2, None), Ok(19));
    check(memory(123, 1, None), Ok(8));
}

#[test]
fn a_cache_has_what_it_is_given_if_that_fits() {
    check(memory(165, 2, Some(20)), Ok(20));
    check(memory(165, 2, Some(8)), Ok(8));
    check(
        memory(165, 2, Some(21)),
        Err(
            "a KV cache of 21 MB per worker does not fit, there is room for 20 MB: lower --kv-cache-mb or --workers",
        ),
    );
    check(
        memory(165, 2, Some(7)),
        Err(
            "a KV cache of 7 MB holds 224 tokens, less than one context of 256: raise --kv-cache-mb or lower --context",
        ),
    );
}

#[test]
fn without_room_for_a_context_all_that_takes_memory_is_named() {
    let refusal = "100 MB of weights and 10 MB of workspace for each of 2 worker(s) leave no room for one context of 256 tokens in 140 MB: lower --context, --max-step-tokens or --workers, or add --kv-cache-dtype fp8 or --weight-dtype fp8";
    check(memory(140, 2, None), Err(refusal));
    check(memory(140, 2, Some(8)), Err(refusal));
    assert!(NEEDS.blocks(memory(0, 1, None)).is_err());
}

#[test]
fn a_worker_takes_its_workspace_and_its_cache() {
    assert_eq!(NEEDS.worker(8), 18 << 20);
}

//! The description of the whole HTTP interface, as OpenAPI 3.1.
//!
//! Built by code next to the types it describes, so that a field and its description change
//! together; a test checks that every reference leads somewhere and that what our own types
//! serialise is what the schemas list. Paths that the frontend alone knows (router, workers,
//! decisions) are described here too: one interface, one document.

mod agents;
mod schemas;
mod workers;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

/// The document. `version` is the server's.
pub fn document(version: &str, router_modes: &[&str]) -> Value {
    let mut paths = Map::new();
    for group in [
        generation_paths(),
        model_paths(),
        health_paths(),
        control_paths(),
    ] {
        let Value::Object(group) = group else {
            unreachable!("every group of paths is an object");
        };
        paths.extend(group);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Homing",
            "version": version,
            "description": "An OpenAI-compatible API over a pool of inference engines, \
                            routed by KV cache."
        },
        "paths": paths,
        "components": {
            "schemas": schemas::all(router_modes),
            "securitySchemes": { "apiKey": { "type": "http", "scheme": "bearer" } }
        },
        "security": [{}, { "apiKey": [] }]
    })
}

fn generation_paths() -> Value {
    json!({
        "/v1/chat/completions": {
            "post": generation(&Generation {
                id: "createChatCompletion",
                summary: "Answers a conversation",
                request: "ChatRequest",
                whole: "ChatCompletion",
                event: "a ChatCompletionChunk",
            })
        },
        "/v1/completions": {
            "post": generation(&Generation {
                id: "createCompletion",
                summary: "Continues one or more prompts",
                request: "CompletionRequest",
                whole: "Completion",
                event: "a Completion",
            })
        },
        "/v1/responses": {
            "post": generation(&Generation {
                id: "createResponse",
                summary: "Answers a conversation, as OpenAI's Responses API has it",
                request: "ResponsesRequest",
                whole: "Response",
                event: "an event of the Responses API",
            })
        },
        "/v1/messages": {
            "post": generation(&Generation {
                id: "createMessage",
                summary: "Answers a conversation, as Anthropic's Messages API has it",
                request: "MessagesRequest",
                whole: "MessagesResponse",
                event: "an event of the Messages API",
            })
        },
        "/v1/messages/count_tokens": { "post": count_tokens() },
        "/v1/embeddings": { "post": forwarded("createEmbedding", "Embeds texts") },
        "/v1/rerank": { "post": forwarded("rerank", "Orders documents by a query") },
        "/tokenize": { "post": forwarded("tokenize", "Makes tokens of a text or a conversation") },
        "/detokenize": { "post": forwarded("detokenize", "Makes a text of tokens") },
    })
}

/// What only the server of a worker's own engine answers, as that server has it.
fn forwarded(id: &str, summary: &str) -> Value {
    let mut forwarded = operation(id, summary, &[400, 401, 404, 413, 415, 429, 503]);
    let any = json!({ "application/json": { "schema": { "type": "object" } } });
    forwarded["description"] = json!("Answered by the engine's own server, where it has one.");
    forwarded["requestBody"] = json!({ "required": true, "content": any });
    forwarded["responses"]["200"] =
        json!({ "description": "As the engine has it", "content": any });
    forwarded
}

fn count_tokens() -> Value {
    let mut count = operation(
        "countTokens",
        "Counts the tokens of a Messages request",
        &[400, 401, 404, 413, 415, 429, 503],
    );
    count["requestBody"] = body("MessagesRequest");
    count["responses"]["200"] = json_answer("The count", "CountTokensResponse");
    count
}

/// What differs between the ways to ask for text; types by the names of their schemas.
struct Generation {
    id: &'static str,
    summary: &'static str,
    request: &'static str,
    /// An answer in one piece.
    whole: &'static str,
    /// One event of a stream.
    event: &'static str,
}

fn generation(of: &Generation) -> Value {
    let Generation { whole, event, .. } = of;
    let mut operation = operation(of.id, of.summary, &[400, 401, 404, 413, 415, 429, 500, 503]);
    operation["parameters"] = json!([
        header("X-Request-ID", "Names the request; echoed in the answer"),
        header("X-Session-ID", "Names the conversation"),
        header(
            "X-Correlation-ID",
            "Names the conversation, for clients that send this one"
        ),
    ]);
    operation["requestBody"] = body(of.request);
    operation["responses"]["200"] = json!({
        "description": "The answer: whole, or as server-sent events",
        "headers": { "X-Request-ID": { "schema": { "type": "string" } } },
        "content": {
            "application/json": { "schema": reference(whole) },
            "text/event-stream": {
                "schema": {
                    "type": "string",
                    "description": format!("each `data:` line holds {event}"),
                }
            }
        }
    });
    operation
}

fn model_paths() -> Value {
    let mut list = operation("listModels", "Lists the served models", &[]);
    list["responses"]["200"] = json_answer("The models", "ModelList");
    let mut show = operation("retrieveModel", "Describes one model", &[404]);
    show["responses"]["200"] = json_answer("The model", "Model");
    show["parameters"] = json!([path_parameter("model", "string")]);
    json!({ "/v1/models": { "get": list }, "/v1/models/{model}": { "get": show } })
}

fn health_paths() -> Value {
    let health = |id, summary, unavailable: &[u16]| {
        let mut operation = operation(id, summary, unavailable);
        operation["responses"]["200"] = json_answer("Yes", "Health");
        operation
    };
    let mut metrics = operation("metrics", "Metrics for Prometheus", &[]);
    metrics["responses"]["200"] = json!({
        "description": "Prometheus text format 0.0.4",
        "content": { "text/plain": { "schema": { "type": "string" } } }
    });
    let mut openapi = operation("openapi", "This document", &[]);
    openapi["responses"]["200"] = json!({
        "description": "OpenAPI 3.1",
        "content": { "application/json": { "schema": { "type": "object" } } }
    });
    json!({
        "/health": { "get": health("health", "Whether a worker can serve", &[503]) },
        "/live": { "get": health("live", "Whether the process runs", &[]) },
        "/ready": { "get": health("ready", "Whether to send requests here", &[503]) },
        "/metrics": { "get": metrics },
        "/openapi.json": { "get": openapi },
    })
}

fn control_paths() -> Value {
    let mut reset = operation(
        "resetPrefixCache",
        "Empties the prefix caches of all workers",
        &[401, 503],
    );
    reset["responses"]["200"] = json_answer("What was emptied", "CacheReset");
    let mut show_router = operation("showRouter", "The routing mode and its weights", &[]);
    show_router["responses"]["200"] = json_answer("In force now", "Router");
    let mut set_router = operation("setRouter", "Switches routing while serving", &[400, 401]);
    set_router["requestBody"] = body("RouterChange");
    set_router["responses"]["200"] = json_answer("In force now", "Router");
    let mut list_workers = operation("listWorkers", "The workers, their load and cache", &[]);
    list_workers["responses"]["200"] = json_answer("The workers", "WorkerList");
    let mut add_worker = operation("addWorker", "Adds a worker while serving", &[401, 409]);
    add_worker["responses"]["201"] = json_answer("The new worker", "Worker");
    let mut replace_workers = operation(
        "replaceWorkers",
        "Puts as many simulated workers of another profile in the place of all",
        &[400, 401, 409, 501, 507],
    );
    replace_workers["requestBody"] = body("WorkerRequest");
    replace_workers["responses"]["200"] = json_answer("The new workers", "NewWorkers");
    let mut remove_worker = operation(
        "removeWorker",
        "Drains a worker and removes it",
        &[401, 404],
    );
    remove_worker["parameters"] = json!([path_parameter("id", "string")]);
    remove_worker["responses"]["202"] = json_answer("It drains", "Worker");
    let mut decisions = operation(
        "listDecisions",
        "The last routing decisions, explained, in pages of about a megabyte",
        &[400],
    );
    for operation in [
        &mut reset,
        &mut show_router,
        &mut set_router,
        &mut list_workers,
    ] {
        operation["parameters"] = json!([model_parameter()]);
    }
    decisions["parameters"] = json!([model_parameter(), {
        "name": "limit",
        "in": "query",
        "description": "How many, newest first",
        "schema": { "type": "integer", "minimum": 1 }
    }, {
        "name": "before",
        "in": "query",
        "description": "Only those with a smaller number: a page's `next`",
        "schema": { "type": "integer", "minimum": 1 }
    }]);
    decisions["responses"]["200"] = json_answer("Newest first", "DecisionList");
    json!({
        "/reset_prefix_cache": { "post": reset },
        "/router": { "get": show_router, "put": set_router },
        "/workers": { "get": list_workers, "post": add_worker, "put": replace_workers },
        "/workers/{id}": { "delete": remove_worker },
        "/decisions": { "get": decisions },
    })
}

fn operation(id: &str, summary: &str, failures: &[u16]) -> Value {
    let responses: Map<_, _> = failures.iter().map(|&status| failure(status)).collect();
    json!({ "operationId": id, "summary": summary, "responses": responses })
}

fn failure(status: u16) -> (String, Value) {
    let description = match status {
        400 => "The request is malformed or a field is invalid",
        401 => "The key is missing or wrong",
        404 => "Not found",
        409 => "It is there already",
        413 => "The body is too large",
        415 => "The body is not JSON",
        429 => "All workers are full; Retry-After says when to come back",
        503 => "No worker can serve",
        _ => "The server failed",
    };
    (status.to_string(), json_answer(description, "Error"))
}

fn json_answer(description: &str, schema: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/json": { "schema": reference(schema) } }
    })
}

fn body(schema: &str) -> Value {
    json!({
        "required": true,
        "content": { "application/json": { "schema": reference(schema) } }
    })
}

fn header(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": "header",
        "description": description,
        "schema": { "type": "string" }
    })
}

fn model_parameter() -> Value {
    json!({
        "name": "model",
        "in": "query",
        "description": "Which of several models; by default the first, or all of them where that makes sense",
        "schema": { "type": "string" }
    })
}

fn path_parameter(name: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn fields(kind: &str, names: &[&str]) -> Map<String, Value> {
    names
        .iter()
        .map(|&name| (name.to_owned(), json!({ "type": kind })))
        .collect()
}

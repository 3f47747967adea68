/** An OpenAI-compatible server that misbehaves on demand. */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Manners = "well" | "refuses" | "stalls" | "babbles";

const chunk = (content: string) => JSON.stringify({ id: "a", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] });
const USAGE = JSON.stringify({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 } });

export class Target {
  manners: Manners = "well";
  private server: Server | null = null;
  private port = 0;

  get address(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Listens where it listened before. */
  async open(): Promise<void> {
    const server = createServer((request, response) => {
      if (request.url?.endsWith("/models")) {
        response.end(JSON.stringify({ data: [{ id: "stand-in" }] }));
        return;
      }
      request.resume();
      request.on("end", () => this.answer(response));
    });
    await new Promise<void>((resolve) => server.listen(this.port, "127.0.0.1", resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** Gone, with all connections. */
  async close(): Promise<void> {
    const { server } = this;
    this.server = null;
    if (!server) return;
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  private answer(response: ServerResponse): void {
    if (this.manners === "refuses") {
      response.statusCode = 401;
      response.end(JSON.stringify({ error: { message: "Incorrect API key provided." } }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    response.write(`data: ${chunk("Hello")}\n\n`);
    if (this.manners === "stalls") return;
    if (this.manners === "babbles") {
      response.end('data: {"choices": oops\n\n');
      return;
    }
    response.end(`data: ${chunk(" there")}\n\ndata: ${USAGE}\n\ndata: [DONE]\n\n`);
  }
}

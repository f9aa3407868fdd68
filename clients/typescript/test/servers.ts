// The servers of the tests: a real Redis, and real replicas of the service, started by tests/clients/servers.py.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const PYTHON = process.env["LOCKFAST_PYTHON"] ?? `${ROOT}.venv/bin/python`;

interface Told {
  replicas: [string, string];
  secure: string;
  key: string;
  ca: string;
  python: string;
}

interface Who {
  id: string;
  ticket: string;
  pid: number;
  purpose: string;
}

export class Servers {
  private constructor(
    readonly told: Told,
    private readonly process: ChildProcess,
    private readonly lines: AsyncIterator<string>,
    private readonly input: Interface,
  ) {}

  static async start(): Promise<Servers> {
    const process = spawn(PYTHON, ["-m", "tests.clients.servers"], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
    const input = createInterface(process.stdout);
    const lines = input[Symbol.asyncIterator]();
    const { value } = await lines.next();
    if (value === undefined) throw new Error("the servers did not start");
    return new Servers(JSON.parse(String(value)) as Told, process, lines, input);
  }

  async do(verb: "pause" | "resume" | "kill" | "start" | "drain", replica: 0 | 1): Promise<void> {
    this.process.stdin?.write(`${JSON.stringify([verb, replica])}\n`);
    const { value } = await this.lines.next();
    if (value !== '"done"') throw new Error(`the servers ended: ${String(value)}`);
  }

  /** Return who holds a lock, and then who waits for it, as the second replica says over HTTP. */
  async who(name: string): Promise<Who[]> {
    const found: Who[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = new URLSearchParams({ name, ...(cursor && { cursor }) }).toString();
      const answer = await fetch(`${this.told.replicas[1].replace("lockfast", "http")}/v1/locks?${query}`);
      const page = (await answer.json()) as { locks: Who[]; cursor: string | null };
      found.push(...page.locks);
      cursor = page.cursor;
    }
    return found.sort((a, b) => Number(a.ticket) - Number(b.ticket));
  }

  /** Run a command of lockfast, and return what it prints. */
  async lockfast(url: string, ...words: string[]): Promise<string> {
    const env = { ...process.env, LOCKFAST_URL: url };
    const { stdout } = await promisify(execFile)(this.told.python, ["-m", "lockfast.cli", ...words], { env });
    return stdout;
  }

  /** Run a Python program that uses the URL in LOCKFAST_URL. Its output comes line by line. */
  python(url: string, program: string): { child: ChildProcess; lines: AsyncIterator<string> } {
    const env = { ...process.env, LOCKFAST_URL: url };
    const child = spawn(this.told.python, ["-c", program], { env, stdio: ["pipe", "pipe", "inherit"] });
    return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator]() };
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.stdin?.end();
    await ended;
    this.input.close();
  }
}

/** Wait until a condition is true. */
export async function until(condition: () => boolean | Promise<boolean>, what: string, seconds = 10): Promise<void> {
  const end = Date.now() + seconds * 1e3;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

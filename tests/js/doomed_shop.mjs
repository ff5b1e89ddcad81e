// Imported before shop.mjs of docs/tutorial.md, it kills the program before a certain change of its files: KILLED_AT.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import process from "node:process";

let left = Number(process.env.KILLED_AT);
for (const name of ["writeFileSync", "renameSync", "fsyncSync"]) {
  const change = fs[name];
  fs[name] = (...args) => {
    left -= 1;
    if (left <= 0) process.kill(process.pid, "SIGKILL");
    return change(...args);
  };
}
syncBuiltinESMExports();

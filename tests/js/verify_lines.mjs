// Checks one proof for each line of JSON: {"genesis": text, "file": text, "at"?: text, "witness"?: text}. Answers each
// with a line: {"valid": true, "everybodyHasTheKey"?: boolean}, or {"valid": false, "reason": text}. A character of the
// texts is a byte (Latin-1).

import { createInterface } from "node:readline";

import { checkFile, NotProven } from "../../verify/verify.mjs";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const { genesis, file, at, witness } = JSON.parse(line);
    const trust = { at: at ?? undefined, witness: witness ?? undefined };
    try {
        const { signed } = await checkFile(Buffer.from(genesis, "latin1"), file, trust);
        console.log(JSON.stringify({ valid: true, everybodyHasTheKey: signed.everybodyHasTheKey }));
    } catch (failure) {
        if (!(failure instanceof NotProven)) throw failure;
        console.log(JSON.stringify({ valid: false, reason: failure.message }));
    }
}

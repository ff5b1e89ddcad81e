// What a dev chain offers to somebody who sees it for the first time: accounts with coins, a payment, code to copy.

import { checksummed } from "./addresses.js";
import { submit } from "./api.js";
import { ONE_COIN } from "./amounts.js";
import { balanceColumn, readBalances, renewBalances } from "./columns.js";
import { fill, h } from "./dom.js";
import { refusalPlace, untilDone } from "./fields.js";
import { paced } from "./live.js";
import { devName, nameOf } from "./names.js";
import { showProgress } from "./progress.js";
import { TRANSFER_GAS } from "./references.js";
import { href } from "./routes.js";
import { avatar } from "./stones.js";
import { card, copyable, copyButton, table } from "./widgets.js";

/** @import { Balances } from "./columns.js" */
/** @import { Live } from "./live.js" */

/** Between two readings of the balances. */
const REST_MS = 1_000;
/** What the Python client knows as `Account.dev(0)`; a chain with a mnemonic of its own has others. */
const USUAL_FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/**
 * The dev accounts with their balances, which follow the chain.
 * @param {string[]} dev
 * @param {{ live: Live, signal: AbortSignal }} context
 */
export async function devTable(dev, { live, signal }) {
    /** @type {Balances} */
    const balances = new Map();
    await readBalances(balances, dev, signal);
    const list = table(
        "Dev accounts",
        [["Name", nameLink], ["Address", addressWithCopy], balanceColumn(balances)],
        dev,
    );
    const follow = async () => {
        await readBalances(balances, dev, signal);
        renewBalances(list, balances);
    };
    live.on("blocks", paced(follow, REST_MS, signal), signal);
    return list;
}

/** @param {string} address */
const nameLink = (address) =>
    h("a", { href: href(`/account/${checksummed(address)}`), class: "account" }, avatar(address, 20), nameOf(address));

/** @param {string} address */
const addressWithCopy = (address) =>
    copyable(checksummed(address), `address of ${nameOf(address) ?? "the account"}`);

/**
 * One button that pays, and what becomes of the payment.
 * @param {string[]} dev
 * @param {AbortSignal} signal
 */
export function firstPayment(dev, signal) {
    const [from, to = from] = dev;
    const progress = h("div", { class: "progress-place" });
    const refusal = refusalPlace();
    const pay = async () => {
        const transfer = { from, to, value: ONE_COIN.toString(), gas: Number(TRANSFER_GAS) };
        showProgress(progress, (await submit(transfer)).txHash, { to, value: ONE_COIN }, signal);
    };
    const text = `Send 1 coin from ${devName(from)} to ${devName(to)}`;
    const button = h("button", { type: "button", class: "button main" }, text);
    button.addEventListener("click", () => untilDone(button, refusal, pay));
    return card(
        "Send your first payment",
        h("p", null, "The node holds the keys of its dev accounts, so one click is enough."),
        h("p", { class: "actions" }, button),
        refusal.element,
        progress,
        h(
            "p",
            { class: "hint" },
            h("a", { href: "#/send" }, "Choose accounts and amount"),
            ", or get coins for an address of your own from the ",
            h("a", { href: "#/faucet" }, "faucet"),
            ".",
        ),
    );
}

/**
 * @param {string} payer
 * @param {string} payee
 * @param {string} url
 */
function pythonSnippet(payer, payee, url) {
    if (payer === USUAL_FIRST) {
        return `# pip install . in a clone; from the first release on: pip install cairn-node-client
from cairn.client import COIN, Account, Client

with Client("${url}") as node:
    sent = node.wallet(Account.dev(0)).send("${payee}", 1 * COIN)
    print("confirmed in block", node.wait(sent).block_height)
`;
    }
    return `# pip install . in a clone; from the first release on: pip install cairn-node-client
from cairn.client import COIN, Client

transfer = {"from": "${payer}", "to": "${payee}", "value": 1 * COIN, "gas": ${TRANSFER_GAS}}
with Client("${url}") as node:
    sent = node.submit(transfer)
    print("confirmed in block", node.wait(sent.tx_hash).block_height)
`;
}

/**
 * Programs that pay on this node, as they can be pasted.
 * @type {(dev: string[], url: string) => [name: string, text: string][]}
 */
function snippets([from, to = from], url) {
    const [payer, payee] = [checksummed(from), checksummed(to)];
    return [
        [
            "curl",
            `curl ${url}/tx -H 'content-type: application/json' -H 'idempotency-key: first-coin' -d '{
  "from": "${payer}",
  "to": "${payee}",
  "value": "${ONE_COIN}",
  "gas": ${TRANSFER_GAS}
}'
curl ${url}/account/${payee}
`,
        ],
        ["Python", pythonSnippet(payer, payee, url)],
        [
            "ethers",
            `// npm install ethers
import { JsonRpcProvider, parseEther } from "ethers";

// With its memory of answers, it may miss the block, and wait for the next one.
const provider = new JsonRpcProvider("${url}/rpc", undefined, { cacheTimeout: -1, pollingInterval: 250 });
const payer = await provider.getSigner("${payer}");
const sent = await payer.sendTransaction({ to: "${payee}", value: parseEther("1") });
console.log("confirmed in block", (await sent.wait()).blockNumber);
provider.destroy();
`,
        ],
    ];
}

/**
 * The programs, one at a time.
 * @param {string[]} dev
 */
export function snippetsCard(dev) {
    const offered = snippets(dev, location.origin);
    const place = h("div", { class: "snippet" });
    /** @param {number} index */
    const choose = (index) => {
        const [name, text] = offered[index];
        buttons.forEach((button, each) => button.setAttribute("aria-pressed", String(each === index)));
        const code = h("pre", { role: "region", "aria-label": `Code for ${name}` }, h("code", null, text));
        fill(place, code, copyButton(text, `code for ${name}`));
    };
    const buttons = offered.map(([name], index) =>
        h("button", { type: "button", class: "button", onclick: () => choose(index) }, name),
    );
    choose(0);
    return card(
        "Pay from your own code",
        h("div", { class: "tabs", role: "group", "aria-label": "Language" }, buttons),
        place,
        h(
            "p",
            { class: "hint" },
            `This node: ${location.origin}. For wallets and Ethereum libraries: ${location.origin}/rpc. `,
            h("a", { href: "/docs" }, "API reference"),
        ),
    );
}

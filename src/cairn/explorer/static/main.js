// Puts the page together: what is live, which view is shown, and the header around it.

import { announce } from "./announcer.js";
import { devAccounts } from "./api.js";
import { Live } from "./live.js";
import { Router } from "./router.js";
import { href } from "./routes.js";
import { stoneLight } from "./stones.js";
import { accountView } from "./views/account.js";
import { blockView } from "./views/block.js";
import { blocksView } from "./views/blocks.js";
import { faucetView } from "./views/faucet.js";
import { mempoolView } from "./views/mempool.js";
import { missingView } from "./views/missing.js";
import { overviewView } from "./views/overview.js";
import { searchView } from "./views/search.js";
import { sendView } from "./views/send.js";
import { transactionView } from "./views/transaction.js";

const VIEWS = {
    "": overviewView,
    account: accountView,
    block: blockView,
    blocks: blocksView,
    faucet: faucetView,
    mempool: mempoolView,
    missing: missingView,
    search: searchView,
    send: sendView,
    tx: transactionView,
};
const CONNECTION_TEXT = { connecting: "Connecting", live: "Live", offline: "Offline" };
/** A restart of the node that takes no longer is not worth a word. */
const ANNOUNCE_AFTER_MS = 2_000;

function showConnection(live) {
    const place = document.querySelector("#connection");
    let announced = "live";
    let timer = null;
    live.on("connection", () => {
        place.dataset.state = live.connection;
        place.querySelector("span").textContent = CONNECTION_TEXT[live.connection];
        clearTimeout(timer);
        timer = setTimeout(() => {
            if (live.connection === announced) return;
            announced = live.connection;
            announce(
                announced === "live"
                    ? "Connected to the node again"
                    : "The connection to the node is lost; trying again",
            );
        }, ANNOUNCE_AFTER_MS);
    });
}

function markCurrent({ name }) {
    for (const link of document.querySelectorAll("#navigation a")) {
        const isCurrent = link.hash.replace("#/", "") === name;
        if (isCurrent) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
}

function prepareSearch() {
    const form = document.querySelector("#search");
    const input = form.querySelector("input");
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!input.value.trim()) return;
        location.hash = href("/search", { q: input.value.trim() });
        input.value = "";
    });
    document.addEventListener("keydown", (event) => {
        const isTyping = event.target.closest?.("input, textarea, select");
        if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        input.focus();
    });
}

/** The part of the address behind # names views, so the link must move the focus by itself. */
function prepareSkipLink() {
    document.querySelector(".skip").addEventListener("click", (event) => {
        event.preventDefault();
        document.querySelector("main").focus();
    });
}

async function showFaucetLink() {
    const accounts = await devAccounts().catch(() => []);
    const link = document.querySelector("#faucet-link");
    link.hidden = accounts.length === 0;
    link.classList.remove("unsure");
}

async function start() {
    const live = new Live();
    document.body.append(stoneLight());
    showConnection(live);
    prepareSearch();
    prepareSkipLink();
    live.on("reset", () => announce("The chain has changed; this is how it is now"));
    live.start();
    const router = new Router({ outlet: document.querySelector("main"), views: VIEWS, live, onShown: markCurrent });
    await router.start();
    performance.mark("cairn-interactive");
    showFaucetLink();
}

start();

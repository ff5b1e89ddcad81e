// Puts the page together: what is live, which view is shown, and the header around it.

import { forgetDescription } from "./api.js";
import { announce, find } from "./dom.js";
import { Live } from "./live.js";
import { isDevChain, learnNames } from "./names.js";
import { Router } from "./router.js";
import { href } from "./routes.js";
import { stoneLight } from "./stones.js";
import { canCheck, trust } from "./trust.js";
import { showAlarm } from "./verdicts.js";
import { accountView } from "./views/account.js";
import { accountsView } from "./views/accounts.js";
import { blockView } from "./views/block.js";
import { blocksView } from "./views/blocks.js";
import { missingView } from "./views/failure.js";
import { mempoolView } from "./views/mempool.js";
import { overviewView } from "./views/overview.js";
import { searchView } from "./views/search.js";
import { faucetView, sendView } from "./views/send.js";
import { statusView } from "./views/status.js";
import { transactionView } from "./views/transaction.js";
import { transactionsView } from "./views/transactions.js";
import { validatorsView } from "./views/validators.js";

/** @import { Route } from "./routes.js" */
/** @import { View } from "./router.js" */

/** @type {Record<string, View>} */
const VIEWS = {
    "": overviewView,
    account: accountView,
    accounts: accountsView,
    block: blockView,
    blocks: blocksView,
    faucet: faucetView,
    mempool: mempoolView,
    missing: missingView,
    search: searchView,
    send: sendView,
    status: statusView,
    tx: transactionView,
    txs: transactionsView,
    validators: validatorsView,
};
const CONNECTION_TEXT = { connecting: "Connecting", live: "Live", offline: "Offline" };
/** A restart of the node that takes no longer is not worth a word. */
const ANNOUNCE_AFTER_MS = 2_000;

/** @param {Live} live */
function showConnection(live) {
    const place = find(document, "#connection", HTMLElement);
    const word = find(place, "span", HTMLElement);
    let announced = "live";
    /** @type {number | undefined} */
    let timer;
    live.on("connection", () => {
        place.dataset.state = live.connection;
        word.textContent = CONNECTION_TEXT[live.connection];
        clearTimeout(timer);
        timer = setTimeout(() => {
            if (live.connection === announced) return;
            announced = live.connection;
            announce(
                announced === "live"
                    ? "Connected to the node"
                    : "The connection to the node is lost. Trying again",
            );
        }, ANNOUNCE_AFTER_MS);
    });
}

/** @param {Route} route */
function markCurrent({ name }) {
    for (const link of find(document, "#navigation", HTMLElement).querySelectorAll("a")) {
        const isCurrent = link.getAttribute("href") === `#/${name}`;
        if (isCurrent) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
}

function prepareSearch() {
    const form = find(document, "#search", HTMLFormElement);
    const input = find(form, "input", HTMLInputElement);
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!input.value.trim()) return;
        location.hash = href("/search", { q: input.value.trim() });
        input.value = "";
    });
    document.addEventListener("keydown", (event) => {
        const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select");
        if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        input.focus();
    });
}

/** The part of the address behind # names views, so the link must move the focus by itself. */
function prepareSkipLink() {
    find(document, ".skip", HTMLElement).addEventListener("click", (event) => {
        event.preventDefault();
        find(document, "main", HTMLElement).focus();
    });
}

/**
 * The links to views that only some chains have.
 * @param {Live} live
 */
async function showLinks(live) {
    const faucet = find(document, "#faucet-link", HTMLElement);
    faucet.hidden = !isDevChain();
    faucet.classList.remove("unsure");
    await live.loaded;
    find(document, "#validators-link", HTMLElement).hidden = live.chain.engine === "embedded";
}

/**
 * With each connection: the node may have been starting, or have been replaced.
 * @param {Live} live
 * @param {Router} router
 */
async function learnAgain(live, router) {
    forgetDescription();
    trust.ask();
    if (live.connection !== "live" || !(await learnNames())) return;
    router.show({ isAgain: true });
    showLinks(live);
}

async function start() {
    const live = new Live();
    const router = new Router({ outlet: find(document, "main", HTMLElement), views: VIEWS, live, onShown: markCurrent });
    document.body.append(stoneLight());
    showConnection(live);
    prepareSearch();
    prepareSkipLink();
    showAlarm(find(document, "#alarm", HTMLElement));
    live.on("reset", () => announce("The chain was replaced or reverted. The page is up to date"));
    router.listen();
    live.start();
    live.on("connection", () => learnAgain(live, router));
    await learnNames();
    await router.show({ isAgain: true });
    performance.mark("cairn-interactive");
    showLinks(live);
    // Every visit compares; what is wrong is said above the view, and what cannot be asked now is asked later.
    if (canCheck()) await trust.genesis().catch(() => {});
}

start();

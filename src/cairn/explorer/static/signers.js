// Who signs a transfer: the node for its dev accounts, or the browser's wallet.

import { getAccount, submit } from "./api.js";
import { checksummed } from "./addresses.js";
import { describeAmount } from "./amounts.js";
import { toHex } from "./bytes.js";
import { fill, h } from "./dom.js";
import { field, refusalPlace } from "./fields.js";
import { nameOf } from "./names.js";
import { intrinsicGas } from "./references.js";
import { connectWallet, sendByWallet } from "./wallet.js";
import { shortened } from "./widgets.js";

/** @import { Chain } from "./api.js" */
/** @import { Wallet } from "./wallet.js" */

/**
 * `send` gives the hash of the transaction.
 * @typedef {object} Signer
 * @property {HTMLElement} element
 * @property {(transfer: { to: string, value: bigint, data: Uint8Array }) => Promise<string>} send
 * @property {() => Promise<void>} refresh
 */

/**
 * A choice among accounts that shows, exactly, what the chosen one owns.
 * @param {string} hint
 * @param {AbortSignal} signal
 */
function accountChoice(hint, signal) {
    const select = h("select", null, h("option", { value: "" }, "Not connected"));
    const made = field("from", "From", select);
    const showBalance = async () => {
        const { balance } = await getAccount(select.value, signal);
        made.explain(`Balance: ${describeAmount(balance)}. ${hint}`);
    };
    select.addEventListener("change", showBalance);
    made.explain(hint);
    /**
     * @param {string[]} accounts
     * @param {(address: string) => string} label
     * @param {string | null} chosen
     */
    const offer = (accounts, label, chosen = null) => {
        fill(
            select,
            accounts.map((address) => h("option", { value: address }, label(address))),
        );
        if (chosen !== null && accounts.includes(chosen)) select.value = chosen;
        return showBalance();
    };
    return { ...made, offer, showBalance, chosen: () => select.value };
}

/**
 * @param {string[]} dev
 * @param {string | null} chosen
 * @param {AbortSignal} signal
 * @returns {Promise<Signer>}
 */
export async function devSigner(dev, chosen, signal) {
    const from = accountChoice("The node holds its key and signs for it.", signal);
    /** @param {string} address */
    const label = (address) => `${nameOf(address)}: ${shortened(address, 4)}`;
    await from.offer(dev.map(checksummed), label, chosen);
    /** @type {Signer["send"]} */
    const send = async ({ to, value, data }) => {
        const transfer = { from: from.chosen(), to, value: value.toString(), gas: Number(intrinsicGas(data)) };
        return (await submit(data.length ? { ...transfer, data: toHex(data) } : transfer)).txHash;
    };
    return { element: from.element, send, refresh: from.showBalance };
}

/**
 * @param {Wallet} wallet
 * @param {Chain} chain
 * @param {AbortSignal} signal
 * @returns {Signer}
 */
export function walletSigner(wallet, { chainId, gasPrice }, signal) {
    const from = accountChoice("The wallet asks you before it signs.", signal);
    from.control.disabled = true;
    const refusal = refusalPlace();
    const connect = async () => {
        refusal.clear();
        try {
            await from.offer(await connectWallet(wallet, chainId), shortened);
            from.control.disabled = false;
        } catch (failure) {
            refusal.show(failure);
        }
    };
    /** @type {Signer["send"]} */
    const send = async ({ to, value, data }) => {
        if (!from.chosen()) throw new Error("Connect the wallet first.");
        return sendByWallet(wallet, { from: from.chosen(), to, value, data, gasPrice, chainId });
    };
    const button = h("button", { type: "button", class: "button", onclick: connect }, "Connect the wallet");
    return { element: h("div", null, from.element, button, refusal.element), send, refresh: from.showBalance };
}

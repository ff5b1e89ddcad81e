// Form fields with their labels, and what is wrong with them.

import { addressProblem, checksummed } from "./addresses.js";
import { describeAmount, parseAmount, plainAmount, UNITS } from "./amounts.js";
import { asFailure } from "./api.js";
import { h } from "./dom.js";
import { addressNamed, nameOf, namedAccounts } from "./names.js";
import { clearEnded, showProgress } from "./progress.js";
import { doubtsOf, hiddenIn } from "./references.js";

/** @import { Failure } from "./api.js" */
/** @import { Unit } from "./amounts.js" */
/** @import { Child } from "./dom.js" */

/**
 * A label, its control, one beside that if need be, and a place for a remark on it.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {string} label
 * @param {E} control
 * @param {HTMLElement | null} beside
 */
export function field(id, label, control, beside = null) {
    control.id = id;
    if (!beside) control.classList.add("whole-row");
    const remark = h("p", { id: `${id}-remark`, class: "remark" });
    control.setAttribute("aria-describedby", remark.id);
    /** @type {(text: string, isWrong: boolean) => void} */
    const show = (text, isWrong) => {
        control.setAttribute("aria-invalid", String(isWrong));
        remark.classList.toggle("wrong", isWrong);
        remark.textContent = text;
    };
    return {
        element: h("div", { class: "field" }, h("label", { for: id }, label), control, beside, remark),
        control,
        /** @param {string} text */
        explain: (text) => show(text, false),
        /** @param {string} text */
        complain: (text) => show(text, true),
    };
}

/**
 * What the field offers as a person types.
 * @param {string} id
 */
const suggestions = (id) =>
    h(
        "datalist",
        { id },
        namedAccounts().map((address) => h("option", { value: nameOf(address) }, checksummed(address))),
    );

/**
 * A field for an address, or for the name of an account. `read` gives the address, or says what is wrong, moves the
 * focus there, and gives null. One that is optional may be empty, and then gives "".
 * @param {string} id
 * @param {string} label
 * @param {string} value
 * @param {string} hint
 */
export function addressField(id, label, value, hint, { isOptional = false } = {}) {
    const input = h("input", {
        name: id,
        class: "code",
        autocomplete: "off",
        spellcheck: "false",
        required: !isOptional,
        placeholder: namedAccounts().length ? "Address or name" : "0x…",
        list: `${id}-known`,
        value,
    });
    const made = field(id, label, input);
    made.element.append(suggestions(`${id}-known`));
    const review = () => {
        const text = input.value.trim();
        const named = addressNamed(text);
        const problem = named || (isOptional && !text) ? null : addressProblem(text);
        if (problem) made.complain(problem);
        else made.explain(named ? `${text} is ${named}.` : hint);
        return problem ? null : (named ?? text);
    };
    input.addEventListener("change", review);
    made.explain(hint);
    return { ...made, read: () => readOrFocus(input, review) };
}

/**
 * A field for an amount from `least` wei up, and up to `most` if there is such a limit; `remark` says more about one.
 * `read` gives it, or says what is wrong, moves the focus there, and gives null.
 * @param {bigint} value
 * @param {(amount: bigint) => string} remark
 * @param {{ least?: bigint, most?: bigint | null }} limits
 */
export function amountField(value, remark, { least = 0n, most = null } = {}) {
    const input = h("input", {
        name: "amount",
        inputmode: "decimal",
        autocomplete: "off",
        required: true,
        value: plainAmount(value),
    });
    const units = /** @type {Unit[]} */ (Object.keys(UNITS));
    const unit = h(
        "select",
        { "aria-label": "Unit", name: "unit" },
        units.map((name) => h("option", null, name)),
    );
    const made = field("amount", "Amount", input, unit);
    const review = () => {
        try {
            const amount = parseAmount(input.value, units[unit.selectedIndex]);
            if (amount < least) throw new RangeError(`${describeAmount(least)} at least.`);
            if (most !== null && amount > most) throw new RangeError(`${describeAmount(most)} at most.`);
            made.explain(remark(amount));
            return amount;
        } catch (failure) {
            if (!(failure instanceof RangeError)) throw failure;
            made.complain(failure.message);
            return null;
        }
    };
    input.addEventListener("input", review);
    unit.addEventListener("change", review);
    review();
    return { ...made, review, read: () => readOrFocus(input, review) };
}

/**
 * A field for what a payment is for, of at most so many bytes; `onInput` is called when it changes. `bytes` are those
 * of the text as it is. `read` gives them, or says what is wrong, moves the focus there, and gives null.
 * @param {bigint} most
 * @param {() => void} onInput
 */
export function referenceField(most, onInput) {
    const input = h("input", { name: "reference", autocomplete: "off", dir: "auto" });
    const made = field("reference", "Reference", input);
    const bytes = () => new TextEncoder().encode(input.value);
    const review = () => {
        const data = bytes();
        const hidden = hiddenIn(input.value);
        const size = `${data.length} of ${most} bytes`;
        if (data.length > most) made.complain(`${size}: write less.`);
        else if (hidden !== null) made.complain(`It holds ${hidden}, a character that cannot be shown.`);
        else if (data.length === 0) made.explain("What it is for, such as an invoice number. It may be left out.");
        else made.explain([`${size}. Everybody can read it, forever.`, ...doubtsOf(input.value)].join(" "));
        return data.length > most || hidden !== null ? null : data;
    };
    input.addEventListener("input", () => {
        review();
        onInput();
    });
    review();
    return { ...made, bytes, read: () => readOrFocus(input, review) };
}

/**
 * The button of a form. While it is pressed the field that a person was in keeps the focus: a remark that comes as they
 * leave it would move the button from under the pointer, and the click would be lost.
 * @param {string} text
 */
const submitButton = (text) =>
    h("button", { class: "button main", onmousedown: (/** @type {Event} */ event) => event.preventDefault() }, text);

/**
 * @template T
 * @param {HTMLElement} input
 * @param {() => T | null} review
 */
function readOrFocus(input, review) {
    const value = review();
    if (value === null) input.focus();
    return value;
}

/**
 * The fields of a payment; a reference only where it can have one.
 * @typedef {object} PaymentFields
 * @property {ReturnType<typeof addressField>} to
 * @property {ReturnType<typeof amountField>} amount
 * @property {ReturnType<typeof referenceField> | null} [reference]
 */

/**
 * A form that pays an amount to an account, and the receipts of what it paid; `above` stands before its fields. `pay`
 * gives the hash.
 * @param {string} text
 * @param {Child} above
 * @param {PaymentFields} fields
 * @param {(address: string, value: bigint, data: Uint8Array) => Promise<string>} pay
 * @param {AbortSignal} signal
 * @param {() => unknown} [onEnd] Once a payment has ended.
 */
export function paymentForm(text, above, { to, amount, reference = null }, pay, signal, onEnd = () => {}) {
    const refusal = refusalPlace();
    const button = submitButton(text);
    const receipts = h("div", { class: "progress-place" });
    /** Whether something was paid; if not, what is wrong is said at its field. */
    const read = async () => {
        const address = to.read();
        const value = address === null ? null : amount.read();
        if (address === null || value === null) return false;
        const data = reference === null ? new Uint8Array() : reference.read();
        if (data === null) return false;
        const hash = await pay(address, value, data);
        showProgress(receipts, hash, { to: address, value }, signal).then(() => signal.aborted || onEnd());
        return true;
    };
    /** @param {SubmitEvent} event */
    const submit = (event) => {
        event.preventDefault();
        return untilDone(button, refusal, async () => {
            let isPaid = false;
            try {
                isPaid = await read();
            } finally {
                if (!isPaid) clearEnded(receipts);
            }
        });
    };
    const form = h(
        "form",
        { onsubmit: submit, novalidate: true },
        above,
        to.element,
        amount.element,
        reference?.element,
        h("p", { class: "actions" }, button),
        refusal.element,
    );
    return h("div", null, form, receipts);
}

/**
 * What a person can make of the commonest refusals; the node's own words follow.
 * @type {Record<string, string>}
 */
const MEANING = {
    INSUFFICIENT_FUNDS: "The balance does not cover the amount and the fee:",
    SENDER_LIMIT: "The account has too many pending transactions:",
    UNREACHABLE: "The transaction may have been submitted or not. Look at the account before you send again.",
};

/**
 * The node's own words, with money as people count it: it speaks of whole wei.
 * @param {Failure} failure
 */
function wording({ code, message }) {
    if (code !== "INSUFFICIENT_FUNDS") return message;
    return message.replace(/\d+/g, (wei) => describeAmount(BigInt(wei)));
}

/** A place under a form for a refusal; it is read out at once. */
export function refusalPlace() {
    const element = h("p", { class: "refusal", role: "alert" });
    /** @param {unknown} thrown */
    const show = (thrown) => {
        const failure = asFailure(thrown);
        element.textContent = [MEANING[failure.code ?? ""], wording(failure)].filter(Boolean).join(" ");
    };
    const clear = () => {
        element.textContent = "";
    };
    return { element, show, clear };
}

/**
 * Do what a button asks for. It cannot be pressed again meanwhile; a refusal is shown in its place.
 * @param {HTMLButtonElement} button
 * @param {ReturnType<typeof refusalPlace>} refusal
 * @param {() => Promise<void>} action
 */
export async function untilDone(button, refusal, action) {
    refusal.clear();
    button.disabled = true;
    try {
        await action();
    } catch (failure) {
        refusal.show(failure);
    } finally {
        button.disabled = false;
    }
}

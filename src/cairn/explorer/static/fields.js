// Form fields with their labels, and what is wrong with them.

import { addressProblem, checksummed } from "./addresses.js";
import { describeAmount, formatAmount, parseAmount, UNITS } from "./amounts.js";
import { devAddress, devName } from "./devnames.js";
import { h } from "./dom.js";

/** A label, its control, one beside that if need be, and a place for a remark on it. */
export function field(id, label, control, beside = null) {
    control.id = id;
    if (!beside) control.classList.add("whole-row");
    const remark = h("p", { id: `${id}-remark`, class: "remark" });
    control.setAttribute("aria-describedby", remark.id);
    const show = (text, isWrong) => {
        control.setAttribute("aria-invalid", String(isWrong));
        remark.classList.toggle("wrong", isWrong);
        remark.textContent = text;
    };
    return {
        element: h("div", { class: "field" }, h("label", { for: id }, label), control, beside, remark),
        control,
        explain: (text) => show(text, false),
        complain: (text) => show(text, true),
    };
}

/** What the field offers as a person types. */
const suggestions = (id, dev) =>
    h(
        "datalist",
        { id },
        dev.map((address) => h("option", { value: devName(dev, address) }, checksummed(address))),
    );

/**
 * A field for an address, or for the name of one of the `dev` accounts. `read` gives the address, or says what is
 * wrong, moves the focus there, and gives null.
 */
export function addressField(id, label, value, hint, dev) {
    const input = h("input", {
        name: id,
        class: "code",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        placeholder: dev.length ? "0x…, or dev0" : "0x…",
        list: `${id}-known`,
        value,
    });
    const made = field(id, label, input);
    made.element.append(suggestions(`${id}-known`, dev));
    const review = () => {
        const text = input.value.trim();
        const named = devAddress(dev, text);
        const problem = named ? null : addressProblem(text);
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
 */
export function amountField(value, remark, { least = 0n, most = null } = {}) {
    const input = h("input", {
        name: "amount",
        inputmode: "decimal",
        autocomplete: "off",
        required: true,
        value: formatAmount(value, "coins").replaceAll(",", ""),
    });
    const unit = h(
        "select",
        { "aria-label": "Unit", name: "unit" },
        Object.keys(UNITS).map((name) => h("option", null, name)),
    );
    const made = field("amount", "Amount", input, unit);
    const review = () => {
        try {
            const amount = parseAmount(input.value, unit.value);
            if (amount < least) throw new RangeError(`${describeAmount(least)} at least.`);
            if (most !== null && amount > most) throw new RangeError(`${describeAmount(most)} at most.`);
            made.explain(remark(amount));
            return amount;
        } catch (failure) {
            made.complain(failure.message);
            return null;
        }
    };
    input.addEventListener("input", review);
    unit.addEventListener("change", review);
    review();
    return { ...made, read: () => readOrFocus(input, review) };
}

function readOrFocus(input, review) {
    const value = review();
    if (value === null) input.focus();
    return value;
}

/** What a person can make of the commonest refusals; the node's own words follow. */
const MEANING = {
    INSUFFICIENT_FUNDS: "The account does not have that much, with the fee:",
    SENDER_LIMIT: "The account has too many transactions waiting:",
    UNREACHABLE: "It may have been sent or not; look at the account before you send it again.",
};

/** The node's own words, with money as people count it: it speaks of whole wei. */
function wording({ code, message }) {
    if (code !== "INSUFFICIENT_FUNDS") return message;
    return message.replace(/\d+/g, (wei) => describeAmount(BigInt(wei)));
}

/** A place under a form for a refusal; it is read out at once. */
export function refusalPlace() {
    const element = h("p", { class: "refusal", role: "alert" });
    const show = (failure) => {
        element.textContent = [MEANING[failure.code], wording(failure)].filter(Boolean).join(" ");
    };
    const clear = () => {
        element.textContent = "";
    };
    return { element, show, clear };
}

// Form fields with their labels, and what is wrong with them.

import { addressProblem } from "./addresses.js";
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

/** A field for an address. `read` gives it, or says what is wrong, moves the focus there, and gives null. */
export function addressField(id, label, value, hint) {
    const input = h("input", {
        name: id,
        class: "code",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        placeholder: "0x…",
        value,
    });
    const made = field(id, label, input);
    const review = () => {
        const problem = addressProblem(input.value.trim());
        if (problem) made.complain(problem);
        else made.explain(hint);
        return problem;
    };
    input.addEventListener("change", review);
    made.explain(hint);
    const read = () => {
        if (!review()) return input.value.trim();
        input.focus();
        return null;
    };
    return { ...made, read };
}

/** What a person can make of the commonest refusals; the node's own words follow. */
const MEANING = {
    INSUFFICIENT_FUNDS: "The account does not have that much, with the fee:",
    SENDER_LIMIT: "The account has too many transactions waiting:",
    UNREACHABLE: "It may have been sent or not; look at the account before you send it again.",
};

/** A place under a form for a refusal; it is read out at once. */
export function refusalPlace() {
    const element = h("p", { class: "refusal", role: "alert" });
    const show = (failure) => {
        element.textContent = [MEANING[failure.code], failure.message].filter(Boolean).join(" ");
    };
    const clear = () => {
        element.textContent = "";
    };
    return { element, show, clear };
}

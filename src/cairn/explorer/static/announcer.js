// What a screen reader is told besides what has the focus: rarely, and never every block.

export function announce(text) {
    document.querySelector("#announcer").textContent = text;
}

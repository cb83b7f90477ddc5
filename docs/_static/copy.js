// A button on each block of code; of a console block it copies the commands, without prompts and output.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copied(block));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
});

function copied(block) {
  const text = block.querySelector("pre").textContent;
  if (!block.parentElement.classList.contains("highlight-console")) return text;
  const lines = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("$ ")) lines.push(line.slice(2));
    else if (lines.length && lines.at(-1).endsWith("\\")) lines.push(line);
  }
  return lines.join("\n");
}

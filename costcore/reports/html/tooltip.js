// The tooltip that follows the pointer.

const tooltip = find("tip");

function showTooltip(text, x, y) {
  tooltip.textContent = text;
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tooltip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

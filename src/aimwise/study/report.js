for (const cover of document.querySelectorAll(".cover")) {
  const button = cover.querySelector("button");
  const label = button.textContent;
  button.hidden = false;
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    const seen = cover.querySelector(".uncovered");
    if (seen) {
      seen.remove();
    } else {
      const place = document.createElement("div");
      place.className = "uncovered";
      place.append(cover.querySelector("template").content.cloneNode(true));
      cover.append(place);
    }
    button.textContent = seen ? label : "Cover it again";
    button.setAttribute("aria-expanded", String(!seen));
  });
}
